%%% Looks into native records, a kind of term that OTP 29 brought. The module compiles and loads on
%%% older releases, which have no such terms.
-module(sbx_record).

-export([is/1, values/1, fields/1, with_fields/2]).

%% Whether a term is a native record. Older compilers know no test for it, so this test is that the
%% term is of no other kind.
-spec is(term()) -> boolean().
is(Term) when
    is_atom(Term); is_number(Term); is_bitstring(Term); is_list(Term); is_tuple(Term); is_map(Term);
    is_function(Term); is_pid(Term); is_reference(Term); is_port(Term)
->
    false;
is(_Record) ->
    true.

-spec values(term()) -> [term()].
values(Record) ->
    [Value || {_Name, Value} <- fields(Record)].

-spec fields(term()) -> [{atom(), term()}].
fields(Record) ->
    Library = records,
    [{Name, Library:get(Name, Record)} || Name <- Library:get_field_names(Record)].

%% The same record with these values.
-spec with_fields(term(), [{atom(), term()}]) -> term().
with_fields(Record, Fields) ->
    Library = records,
    [Module, Name, IsExported] = [Library:Get(Record) || Get <- [get_module, get_name, is_exported]],
    Library:create(Module, Name, Fields, #{is_exported => IsExported}).
