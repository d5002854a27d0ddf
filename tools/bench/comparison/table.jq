# A report as a Markdown table. Usage: jq -r -f table.jq report.json

def shown: if . < 10 then . * 100 | round / 100 elif . < 100 then . * 10 | round / 10 else round end | tostring;
def cell: if . == null then "" elif .count == 1 then .median | shown else "\(.median | shown) (\(.low | shown)–\(.high | shown))" end;
def p99: if .count >= 20 then .p99 | shown else "" end;
def bound: if .wanted == null then "" elif .kind == "rate" then "at least \(.wanted)" elif .kind == "difference" then "at most \(.wanted) more" else "at most \(.wanted)" end;
def verdict: if .reached == null then "" elif .reached then "yes" else "**no**" end;

.machine, "",
"| what | ours | 99 of 100 | beside | theirs | compared | wanted | reached |",
"|---|---|---|---|---|---|---|---|",
(.rows[] | "| \(.what) | \(.ours | cell) | \(.ours | p99) | \(.beside // "") | \(.theirs | cell) | \(if .theirs then .value * 1000 | round / 1000 else "" end) | \(bound) | \(verdict) |")
