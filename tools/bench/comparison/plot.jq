# A report as a plot: how much of what is wanted each row takes; the line is all of it. Usage: jq -r -f plot.jq report.json

def escaped: gsub("&"; "&amp;") | gsub("<"; "&lt;") | gsub("`"; "");
def rounded: . * 10 | round / 10;
[.rows[] | select(.wanted != null) | {what, share: (if .kind == "rate" then .wanted / .value else .value / .wanted end)}] as $bars |
{label: 380, scale: 200, most: 2, line: 22, top: 30} as $size |
($size.label + $size.scale * $size.most + 60) as $width |
($size.top + ($bars | length) * $size.line + 10) as $height |
"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"\($width)\" height=\"\($height)\" font-family=\"sans-serif\" font-size=\"12\">",
"<rect width=\"\($width)\" height=\"\($height)\" fill=\"white\"/>",
"<text x=\"\($size.label + $size.scale)\" y=\"18\" text-anchor=\"middle\">as much as is wanted at most</text>",
($bars | to_entries[] |
  ($size.top + .key * $size.line) as $y |
  ([.value.share, $size.most] | min) as $shown |
  "<text x=\"\($size.label - 8)\" y=\"\($y + 14)\" text-anchor=\"end\">\(.value.what | escaped)</text>",
  "<rect x=\"\($size.label)\" y=\"\($y + 3)\" width=\"\([$shown * $size.scale, 1] | max | rounded)\" height=\"15\" fill=\"\(if .value.share <= 1 then "#2a7f62" else "#c44e37" end)\"/>",
  "<text x=\"\($size.label + $shown * $size.scale + 5 | rounded)\" y=\"\($y + 14)\">\(.value.share * 100 | round / 100)</text>"),
"<line x1=\"\($size.label + $size.scale)\" y1=\"\($size.top - 6)\" x2=\"\($size.label + $size.scale)\" y2=\"\($height - 6)\" stroke=\"black\" stroke-dasharray=\"4 3\"/>",
"</svg>"
