%%% Guesses the entry point of a project that does not name one: its application callback, else its
%%% topmost supervisor.
-module(sbx_guess).

-export([properties/3, supervisor/1]).

-define(SUPERVISORS, [supervisor, 'Elixir.Supervisor', 'Elixir.DynamicSupervisor', 'Elixir.PartitionSupervisor']).
-define(APPLICATIONS, [application, 'Elixir.Application']).

%% Makes the properties of a resource file where the project has none.
-spec properties([{atom(), term()}], file:filename(), [module()]) -> [{atom(), term()}].
properties([], Ebin, Modules) ->
    Callback = [Module || #{module := Module} = Facts <- facts(Ebin), behaves(Facts, ?APPLICATIONS)],
    [{applications, [kernel, stdlib] ++ elixir(Modules)} | mod(Callback)];
properties(Properties, _Ebin, _Modules) ->
    Properties.

mod([Module]) -> [{mod, {Module, []}}];
mod(_NoneOrSeveral) -> [].

elixir(Modules) ->
    case lists:any(fun(Module) -> lists:prefix("Elixir.", atom_to_list(Module)) end, Modules) of
        true -> [elixir, logger];
        false -> []
    end.

%% The only supervisor that start_link/0 or start_link/1 can start and that no other supervisor
%% mentions.
-spec supervisor(file:filename()) -> module() | nil.
supervisor(Ebin) ->
    Facts = facts(Ebin),
    Supervisors = [Fact || Fact <- Facts, behaves(Fact, ?SUPERVISORS), starts(Fact)],
    case lists:any(fun(Fact) -> behaves(Fact, ?APPLICATIONS) end, Facts) of
        true -> nil;
        false -> only([Module || #{module := Module} <- Supervisors, not is_mentioned(Module, Supervisors)])
    end.

only([Module]) -> Module;
only(_) -> nil.

starts(#{exports := Exports}) ->
    lists:member({start_link, 0}, Exports) orelse lists:member({start_link, 1}, Exports).

behaves(#{behaviours := Behaviours}, Wanted) ->
    lists:any(fun(Behaviour) -> lists:member(Behaviour, Wanted) end, Behaviours).

is_mentioned(Module, Facts) ->
    lists:any(fun(#{module := Other, names := Names}) -> Other =/= Module andalso names(Module, Names) end, Facts).

names(Module, {Atoms, Literals}) ->
    lists:member(Module, Atoms) orelse binary:match(Literals, atom_to_binary(Module)) =/= nomatch.

facts(Ebin) ->
    [fact(filename:join(Ebin, File)) || File <- filelib:wildcard("*.beam", Ebin)].

fact(File) ->
    {ok, {Module, Chunks}} = beam_lib:chunks(File, [attributes, exports, atoms, "LitT"], [allow_missing_chunks]),
    [{attributes, Attributes}, {exports, Exports}, {atoms, Atoms}, {"LitT", Literals}] = Chunks,
    #{
        module => Module,
        exports => Exports,
        behaviours => lists:append([Names || {Key, Names} <- Attributes, Key =:= behaviour orelse Key =:= behavior]),
        names => {[Atom || {_Index, Atom} <- Atoms], literals(Literals)}
    }.

%% Child specifications are literals, which are stored compressed (plain with a size of 0 since OTP
%% 28).
literals(missing_chunk) -> <<>>;
literals(<<0:32, Plain/binary>>) -> Plain;
literals(<<_Size:32, Compressed/binary>>) -> zlib:uncompress(Compressed).
