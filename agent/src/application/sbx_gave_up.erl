%%% Notices supervisors that give up, from their reports to the logger. Such a supervisor exits with
%%% `shutdown`, as one does that was asked to stop. Only the report tells the two apart.
-module(sbx_gave_up).

-export([install/0, is_certain/0]).
-export([filter/2]).

-define(CAUSE, '$sandbox_last_child').
-define(CAUSE_MAX_BYTES, 2048).

%% The filter comes first, since Elixir's own filter rewrites reports.
-spec install() -> ok.
install() ->
    logger:add_primary_filter(?MODULE, {fun ?MODULE:filter/2, none}).

%% Whether every supervisor that gives up is noticed: a level above `error` hides the reports, and
%% the application can remove the filter.
-spec is_certain() -> boolean().
is_certain() ->
    #{level := Level, filters := Filters} = logger:get_primary_config(),
    logger:compare_levels(Level, error) =/= gt andalso lists:keymember(?MODULE, 1, Filters).

%% Runs in the supervisor's process. A child's end is kept there until it is known whether the
%% supervisor goes on: to send it costs a copy of the reason, which may be large.
-spec filter(logger:log_event(), none) -> ignore.
filter(#{msg := {report, #{label := {supervisor, Context}, report := Report}}}, none) when is_list(Report) ->
    _ = note(Context, Report),
    ignore;
filter(_Event, none) ->
    ignore.

note(Context, Report) when Context =:= child_terminated; Context =:= start_error ->
    put(?CAUSE, {offender(Report), proplists:get_value(reason, Report)});
note(shutdown, Report) ->
    case proplists:get_value(reason, Report) of
        reached_max_restart_intensity -> sbx_app:gave_up(self(), text(Report, get(?CAUSE)));
        _Other -> ok
    end;
note(_Context, _Report) ->
    ok.

%% {Text, whether it names a cause}. The end of a supervisor below is none: that one has told its
%% own.
text(Report, {Child, Reason}) when Reason =/= shutdown ->
    Cause = sbx_reason:bounded(sbx_reason:exit_text(Reason), ?CAUSE_MAX_BYTES),
    {words("~ts gave up: its children ended too often. The last was ~ts: ~ts", [name(Report), Child, Cause]), true};
text(Report, _None) ->
    {words("~ts gave up: its children ended too often", [name(Report)]), false}.

offender(Report) ->
    Offender = proplists:get_value(offender, Report, []),
    Id = proplists:get_value(id, Offender, proplists:get_value(name, Offender, child)),
    sbx_reason:bounded(written(Id), ?CAUSE_MAX_BYTES).

written(Id) when is_atom(Id) -> sbx_reason:module_name(Id);
written(Id) -> words("~0tp", [Id]).

name(Report) ->
    case proplists:get_value(supervisor, Report) of
        {_Scope, Name} when is_atom(Name) -> sbx_reason:module_name(Name);
        _Other -> <<"the supervisor">>
    end.

words(Format, Arguments) ->
    unicode:characters_to_binary(io_lib:format(Format, Arguments)).
