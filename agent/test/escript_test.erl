%%% Escripts: which modules each kind holds, which one is the program, and what is said of broken ones.
-module(escript_test).

-include_lib("eunit/include/eunit.hrl").

%% A file without an extension, as the tools make it.
script(Name, Sections) when is_list(Sections) ->
    {ok, Bytes} = escript:create(binary, Sections),
    script(Name, Bytes);
script(Name, Bytes) ->
    Dir = test_dir:new(),
    test_dir:write_bytes(filename:join(Dir, Name), Bytes),
    build:compile(file, Dir, list_to_binary(Name)).

beam(Name) -> release_test:module(Name).

app(Name, Modules) ->
    unicode:characters_to_binary(io_lib:format("~tp.", [{application, Name, [{vsn, "1"}, {modules, Modules}]}])).

modules(#{apps := Apps}) ->
    lists:sort([{Name, lists:sort([Module || #{module := Module} <- Its])} || #{name := Name, modules := Its} <- Apps]).

says(Text, {error, #{errors := [#{message := Message} | _]}}) ->
    string:find(Message, Text) =/= nomatch orelse error({Text, Message}).

%% The text needs no -module and no -export; lines stay as they are.
source_test() ->
    Head = <<"#!/usr/bin/env escript\n%% -*- erlang -*-\n%%! -smp enable -sname x +A 2\n">>,
    Main = <<"main([N]) -> io:format(\"~p~n\", [one(N)]).\none(N) -> N.\n">>,
    {ok, Built} = script("my-tool", <<Head/binary, Main/binary>>),
    ?assertMatch(#{main := nil, program := <<"my_tool">>}, Built),
    ?assertEqual([{<<"my_tool_escript">>, [<<"my_tool">>]}], modules(Built)),
    [#{message := Ignored}] = maps:get(warnings, Built),
    ?assertEqual(<<"the arguments that the escript has for its emulator are ignored: -sname x +A 2">>, Ignored),
    {ok, #{program := <<"named">>}} = script("x.erl", <<Head/binary, "-module(named).\n-export([main/1]).\n", Main/binary>>),
    {error, #{errors := [Error]}} = script("bad", <<Head/binary, "main(_) ->\n  foo(.\n">>),
    ?assertMatch(#{file := <<"bad">>, line := 5, kind := syntax}, Error).

beam_test() ->
    {ok, Built} = script("tool", [shebang, {beam, beam(one_module)}]),
    ?assertMatch(#{program := <<"one_module">>, warnings := []}, Built),
    ?assertEqual([{<<"tool_escript">>, [<<"one_module">>]}], modules(Built)).

%% Mix puts all files into one folder, and Elixir with them.
flat_archive_test() ->
    Files = [
        {"tool_main.beam", beam(tool_main)}, {"tool.app", app(tool, [tool_a])}, {"tool_a.beam", beam(tool_a)},
        {"elixir.app", app(elixir, ['Elixir.Enum'])}, {"Elixir.Enum.beam", beam('Elixir.Enum')},
        {"lists.beam", beam(lists)}, {"money.app", app(money, [money])}, {"money.beam", beam(money)}
    ],
    {ok, Built} = script("tool", [shebang, {emu_args, "-escript main tool_main"}, {archive, Files, []}]),
    ?assertMatch(#{main := nil, program := <<"tool_main">>, warnings := []}, Built),
    ?assertEqual(
        [{<<"money">>, [<<"money">>]}, {<<"tool">>, [<<"tool_a">>]}, {<<"tool_escript">>, [<<"tool_main">>]}], modules(Built)
    ).

%% rebar3 keeps a folder for each application. The program is the module with the file's name.
deep_archive_test() ->
    Files = [
        {"tool/ebin/tool.app", app(tool, [])}, {"tool/ebin/tool.beam", beam(tool)}, {"tool/priv/text", <<"text">>},
        {"dep/ebin/dep.app", app(dep, [dep])}, {"dep/ebin/dep.beam", beam(dep)}, {"dep/ebin/more.beam", beam(more)}
    ],
    {ok, Built} = script("tool", [shebang, {archive, Files, []}]),
    ?assertMatch(#{program := <<"tool">>}, Built),
    ?assertEqual([{<<"dep">>, [<<"dep">>, <<"more">>]}, {<<"tool">>, [<<"tool">>]}], modules(Built)).

broken_test() ->
    says("sh: it is a script of another interpreter", script("sh", <<"#!/bin/sh\necho escript\n">>)),
    says("it is no escript that can be read", script("none", <<"#!/usr/bin/env escript">>)),
    says("its archive is damaged", script("cut", <<"#!/usr/bin/env escript\n%%! -escript main x\nPK", 3, 4, 0>>)),
    says("holds a file that is no compiled module", script("text", [shebang, {archive, [{"a.beam", <<"text">>}], []}])),
    says("a.app in it is no application", script("app", [shebang, {archive, [{"a.app", <<"{a">>}, {"a.beam", beam(a)}], []}])),
    says("sbx_evil", script("evil", [shebang, {archive, [{"sbx_evil.beam", beam(sbx_evil)}], []}])).
