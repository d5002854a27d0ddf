%%% OTP releases and folders of compiled applications: what is taken of them, what starts, and what is
%%% said of broken ones.
-module(release_test).

-include_lib("eunit/include/eunit.hrl").

-export([module/1]).

%% An application that has one module of its name, in a folder of its own below Lib.
app(Lib, Name, Properties) -> app(Lib, Name, Name, Properties).

app(Lib, Folder, Name, Properties) ->
    Dir = filename:join([Lib, Folder, "ebin"]),
    [
        {filename:join(Dir, Name ++ ".app"), io_lib:format("~tp.~n", [{application, list_to_atom(Name), Properties}])},
        {filename:join(Dir, Name ++ ".beam"), {beam, module(list_to_atom(Name))}}
    ].

module(Name) ->
    Forms = [{attribute, 1, module, Name}, {attribute, 1, export, [{x, 0}]}, {function, 1, x, 0, [{clause, 1, [], [], [{atom, 1, ok}]}]}],
    {ok, Name, Beam} = compile:forms(Forms, []),
    Beam.

write(Files) ->
    Dir = test_dir:new(),
    [test_dir:write_bytes(filename:join(Dir, Name), Bytes) || {Name, {beam, Bytes}} <- lists:flatten(Files)],
    test_dir:write(Dir, [File || {_, Text} = File <- lists:flatten(Files), not is_tuple(Text)]).

%% shop needs money; extra is needed by none; tool is loaded only; sasl is the toolchain's.
release() ->
    [
        app("lib", "shop-0.1.0", "shop", [{vsn, "0.1.0"}, {applications, [kernel, stdlib, elixir, money]}, {mod, {shop, []}}]),
        app("lib", "money-1.2.0", "money", [{vsn, "1.2.0"}, {applications, [kernel, stdlib]}, {mod, {money, []}}]),
        app("lib", "extra-1.0", "extra", [{vsn, "1.0"}, {applications, [kernel, stdlib]}]),
        app("lib", "tool-1.0", "tool", [{vsn, "1.0"}, {applications, [kernel, stdlib]}, {mod, {tool, []}}]),
        app("lib", "sasl-4.2", "sasl", [{vsn, "0"}]),
        {"lib/shop-0.1.0/ebin/Elixir.Shop.beam", {beam, module('Elixir.Shop')}},
        {"releases/0.1.0/consolidated/Elixir.Shop.Priced.beam", {beam, module('Elixir.Shop.Priced')}},
        {"releases/0.1.0/consolidated/Elixir.Enumerable.beam", {beam, module('Elixir.Enumerable')}},
        {"releases/start_erl.data", [erlang:system_info(version), " 0.1.0\n"]},
        {"releases/0.1.0/shop.rel", rel(erlang:system_info(version))},
        {"releases/0.1.0/start_clean.rel", "{release, {}}."},
        {"releases/0.1.0/sys.config",
            "[{shop, [{colour, red}, {size, 1}]}, \"more\", {elixir, [{config_provider_init, #{providers =>"
            " [{'Elixir.Config.Reader', {{system, <<\"RELEASE_ROOT\">>, <<\"/runtime.exs\">>}, [{env, staging}]}},"
            " {'Elixir.Vault', []}]}}, {other, 1}]}]."},
        {"releases/0.1.0/more.config", "[{shop, [{colour, blue}]}]."},
        {"releases/0.1.0/runtime.exs", "import Config\n"},
        {"releases/0.0.9/shop.rel", "old"}
    ].

rel(Erts) ->
    io_lib:format(
        "{release, {\"shop\", \"0.1.0\"}, {erts, ~tp}, [{kernel, \"8\"}, {stdlib, \"4\", permanent},"
        " {elixir, \"1.0.0\", permanent}, {tool, \"1.0\", load}, {extra, \"1.0\", temporary}, {sasl, \"4.2\", permanent},"
        " {shop, \"0.1.0\"}, {money, \"1.2.0\", permanent, []}]}.", [Erts]
    ).

messages(Key, Told) -> [Message || #{message := Message} <- maps:get(Key, Told)].

has(Text, Messages) -> lists:any(fun(Message) -> string:find(Message, Text) =/= nomatch end, Messages).

property(Key, Name, #{apps := Apps}) ->
    [Text] = [Text || #{name := N, app_file := Text} <- Apps, N =:= Name],
    {ok, Tokens, _} = erl_scan:string(unicode:characters_to_list(Text)),
    {ok, {application, _, Properties}} = erl_parse:parse_term(Tokens),
    proplists:get_value(Key, Properties).

names(#{apps := Apps}) -> lists:sort([Name || #{name := Name} <- Apps]).

release_test() ->
    {ok, Built} = build:compile(release, write(release()), nil),
    ?assertEqual([<<"extra">>, <<"money">>, <<"shop">>, <<"tool">>], names(Built)),
    ?assertEqual(<<"shop">>, maps:get(main, Built)),
    %% What starts with the release, in its order, before the application that stands for it.
    ?assertEqual([kernel, stdlib, elixir, extra, sasl, money], property(applications, <<"shop">>, Built)),
    ?assertEqual("0.1.0", property(vsn, <<"shop">>, Built)),
    Config = #{config => [{shop, [{colour, blue}, {size, 1}]}, {elixir, [{other, 1}]}],
        runtime => #{file => <<"releases/0.1.0/runtime.exs">>, text => <<"import Config\n">>, env => staging}},
    ?assertEqual(Config, binary_to_term(maps:get(config, Built))),
    %% Of the release's consolidated protocols, those that are not Elixir's own.
    Consolidated = maps:from_list([{Name, Beam} || #{module := Name, beam := Beam} <- maps:get(consolidated, Built)]),
    ?assertEqual(module('Elixir.Shop.Priced'), map_get(<<"Elixir.Shop.Priced">>, Consolidated)),
    ?assertNotEqual(module('Elixir.Enumerable'), map_get(<<"Elixir.Enumerable">>, Consolidated)),
    [_, _] = Warnings = messages(warnings, Built),
    ?assert(has("was made with Elixir 1.0.0 and runs on Elixir", Warnings)),
    ?assert(has("the config provider Vault of the release is not run", Warnings)).

%% relx leaves variables to the start; a release of another OTP says so.
template_long_test() ->
    Without = [File || {Name, _} = File <- lists:flatten(release()), filename:basename(Name) =/= "runtime.exs"],
    Dir = write([Without, {"releases/0.1.0/sys.config.src", "[{shop, [{port, ${PORT}}]}]."}]),
    test_dir:write(Dir, [{"releases/0.1.0/shop.rel", rel("99.1")}]),
    {ok, #{config := Config, warnings := Warnings}} = build:compile(release, Dir, nil),
    ?assertMatch(#{runtime := #{file := <<"releases/0.1.0/sys.config.src">>}}, binary_to_term(Config)),
    ?assert(has("was made with OTP 111 and runs on OTP " ++ erlang:system_info(otp_release), messages(warnings, #{warnings => Warnings}))).

broken_long_test() ->
    Broken = fun(Changes, Text) ->
        Names = [Name || {Name, _} <- Changes],
        Kept = [File || {Name, _} = File <- lists:flatten(release()), not lists:member(Name, Names)],
        Dir = write([Kept | [File || {_, Bytes} = File <- Changes, Bytes =/= gone]]),
        {error, #{errors := Errors}} = build:compile(release, Dir, nil),
        has(Text, messages(errors, #{errors => Errors})) orelse error({Text, Errors})
    end,
    Start = "releases/start_erl.data",
    Rel = "releases/0.1.0/shop.rel",
    Broken([{Start, gone}], "has several versions (0.0.9, 0.1.0) and no releases/start_erl.data"),
    Broken([{Start, gone}, {Rel, gone}, {"releases/0.0.9/shop.rel", gone}], "has neither releases/start_erl.data nor"),
    Broken([{Start, "14.0"}], "does not hold the versions"),
    Broken([{Start, "14.0 ../../lib"}], "names no version"),
    Broken([{Start, "14.0 0.2.0"}], "the release has no releases/0.2.0/NAME.rel"),
    Broken([{"releases/0.1.0/other.rel", ""}], "has several releases (other.rel, shop.rel)"),
    Broken([{Rel, "{release, shop"}], "syntax error"),
    Broken([{Rel, "{release, shop}."}], "is not {release, {Name, Version}"),
    Broken([{Rel, "{release, {\"s\", \"1\"}, {erts, \"14\"}, [{\"a\", 1}]}."}], "lists {\"a\",1}, which is no application"),
    Broken([{Rel, "{release, {\"s\", \"1\"}, {erts, \"x\"}, [{money, \"1.2.0\"}]}."}], "names no version of ERTS"),
    Broken([{Rel, "{release, {\"s\", \"1\"}, {erts, \"14\"}, [{kernel, \"1\"}]}."}], "has no application that the toolchain"),
    Broken([{Rel, "{release, {\"s\", \"1\"}, {erts, \"14\"}, [{tool, \"1.0\", load}]}."}], "starts no application of its own"),
    Broken([{"lib/money-1.2.0/ebin/money.app", gone}], "the release lacks lib/money-1.2.0/ebin/money.app"),
    Broken([{"lib/money-1.2.0/ebin/money.app", "{application, gold, []}."}], "money.app describes the application gold"),
    Broken([{"releases/0.1.0/sys.config", "[{shop, red}]."}], "is not a list of {Application, [{Key, Value}]}"),
    Broken([{"releases/0.1.0/more.config", gone}], "releases/0.1.0/more.config: no such file").

%% relx makes such links with dev_mode; they lead out of the release.
linked_test() ->
    Dir = write(release()),
    Money = filename:join(Dir, "lib/money-1.2.0"),
    ok = file:rename(Money, Money ++ ".elsewhere"),
    ok = file:make_symlink("../../elsewhere/money", Money),
    {error, #{message := Message}} = build:compile(release, Dir, nil),
    ?assert(has("the folder is a link, as relx makes it with dev_mode", [Message])).

compiled_test() ->
    Files = [
        app("lib", "shop", [{vsn, "1"}, {applications, [kernel, stdlib, money]}, {mod, {shop, []}}]),
        app("lib", "money", [{vsn, "1"}, {applications, [kernel, stdlib]}, {mod, {money, []}}]),
        app("lib", "stdlib", [{vsn, "1"}])
    ],
    {ok, Built} = build:compile(compiled, write(Files), nil),
    ?assertMatch(#{main := <<"shop">>, warnings := [], apps := [#{dir := <<"lib/shop">>}, #{dir := <<"lib/money">>}]}, Built),
    Other = app("lib", "bank", [{vsn, "1"}, {applications, [money]}, {mod, {bank, []}}]),
    {ok, #{main := nil, warnings := [#{message := Message}]}} = build:compile(compiled, write([Files, Other]), nil),
    ?assert(has("can be started: bank, shop. None is, unless --app names it", [Message])),
    Twin = app("lib", "shop-2", "shop", [{vsn, "2"}]),
    {error, #{message := Twice}} = build:compile(compiled, write([Files, Twin]), nil),
    ?assert(has("the application shop is in it twice", [Twice])),
    {error, #{message := Empty}} = build:compile(compiled, write(app("lib", "stdlib", [{vsn, "1"}])), nil),
    ?assert(has("none of the applications in it", [Empty])).
