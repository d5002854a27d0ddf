%%% Updates the supervisor that an application started with a list of children, as most Elixir
%%% applications do. The list is in the application's start/2, so only running start/2 again gives a
%%% new list.
-module(sbx_reload_child_list).

-export([foresee/1, update/1, revert/1]).

-include("sbx_reload.hrl").

-define(LIST_FORM, 'Elixir.Supervisor.Default').
-define(REVERT_TIMEOUT_MS, 5000).
-define(COPY_MAX_WORDS, 1048576).

%% Warns of what will not be applied.
-spec foresee(#reload{}) -> #reload{}.
foresee(#reload{args = #{run_start := true}} = Reload) ->
    Reload;
foresee(#reload{modules = Modules} = Reload) ->
    case started_with_list() of
        {_Top, Module, _Arguments, _Master} ->
            case lists:member(Module, Modules) of
                true ->
                    Format = "~ts:start/2 was not run again: the application's supervisor has the children it had",
                    sbx_reload_run:warn(sbx_reload_text:text(Format, [sbx_reason:module_name(Module)]), Reload);
                false ->
                    Reload
            end;
        none ->
            Reload
    end.

started_with_list() ->
    #{app_name := Name, app_pid := Master, supervisor_pid := Top} = sbx_app:facts(),
    case is_pid(Top) andalso Master =/= Top andalso is_list_form(Top) of
        true ->
            case application:get_key(binary_to_atom(Name), mod) of
                {ok, {Module, Arguments}} -> {Top, Module, Arguments, Master};
                _ -> none
            end;
        false ->
            none
    end.

is_list_form(Top) ->
    case process_info(Top, dictionary) of
        {dictionary, Dictionary} -> lists:member({'$initial_call', {supervisor, ?LIST_FORM, 1}}, Dictionary);
        undefined -> false
    end.

%% Runs while no process is suspended: start/2 may call any of them.
-spec update(#reload{}) -> #reload{}.
update(#reload{args = #{run_start := true}} = Reload) ->
    case started_with_list() of
        {Top, Module, _, _} = Started ->
            case is_concerned(Module, Reload) of
                true -> run_start(Top, Started, Reload);
                false -> Reload
            end;
        none ->
            Reload
    end;
update(Reload) ->
    Reload.

%% The list names modules, whose child_spec/1 says how they are started.
is_concerned(Module, #reload{modules = Modules}) ->
    lists:member(Module, Modules) orelse
        lists:any(fun(M) -> erlang:function_exported(M, child_spec, 1) end, Modules).

run_start(Top, {_, Module, Arguments, Master}, #reload{args = #{migrate_timeout_ms := TimeoutMs}} = Reload) ->
    case sbx_reload_start:argument(Module, Arguments, Master, TimeoutMs) of
        {ok, Argument} ->
            take(Top, Argument, Reload);
        {error, Text} ->
            Format = "the new children of the application's supervisor are not known: ~ts",
            sbx_reload_run:warn(sbx_reload_text:text(Format, [Text]), Reload)
    end.

take(Top, Argument, #reload{reports = Reports, args = #{migrate_timeout_ms := TimeoutMs}} = Reload) ->
    case run_inside(Top, Argument, TimeoutMs) of
        {answer, {ok, #{argument := Old} = Report}} ->
            Reload#reload{reports = [{Top, ?LIST_FORM, Report} | Reports], list = {Top, Old}};
        {answer, {failed, Text}} ->
            sbx_reload_run:fail(supervisor, Text, #{process => sbx_reload_text:pid(Top)}, Reload);
        _ ->
            Text = <<"the application's supervisor does not answer">>,
            sbx_reload_run:fail(supervisor, Text, #{process => sbx_reload_text:pid(Top)}, Reload)
    end.

run_inside(Top, Argument, TimeoutMs) ->
    Plan = {supervisor, Argument},
    Make = fun(_Pid, Tag) -> sbx_reload_state:migrate(?LIST_FORM, Plan, ?COPY_MAX_WORDS, Tag) end,
    map_get(Top, sbx_reload_sysmsg:run_inside([Top], Make, TimeoutMs)).

%% Restores the old list. Returns the difference of the child specs.
-spec revert(#reload{}) -> [{pid(), module(), sbx_reload_state:report()}].
revert(#reload{list = none}) ->
    [];
revert(#reload{list = {Top, Argument}}) ->
    case run_inside(Top, Argument, ?REVERT_TIMEOUT_MS) of
        {answer, {ok, Report}} -> [{Top, ?LIST_FORM, Report}];
        _ -> []
    end.
