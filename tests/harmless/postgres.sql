-- What PostgreSQL can do, in small: a schedule of SQL whose output is the same each time.
\set VERBOSITY terse
set timezone = 'UTC';
set datestyle = iso;

-- joins of every kind, aggregates, windows
create table t as select a, a % 7 as b, md5(a::text) as c from generate_series(1, 800) a;
create table u (a int primary key, d numeric check (d < 1e6), e text collate "C");
insert into u select a, a * 1.5, repeat('x', a % 5) from generate_series(1, 800, 3) a;
analyze;
set enable_mergejoin = off; set enable_nestloop = off;
select count(*), sum(d), min(c) from t join u using (a);
set enable_hashjoin = off; set enable_mergejoin = on;
select count(*), max(e) from t left join u using (a) where d is null or b = 2;
set enable_mergejoin = off; set enable_nestloop = on;
select count(*) from t full join u on t.a = u.a and u.a < 100 where t.a < 200;
reset enable_hashjoin; reset enable_mergejoin;
select b, count(*), avg(a)::numeric(9, 2), string_agg(left(c, 2), ',' order by a) filter (where a < 30)
	from t group by rollup (b) order by b nulls first;
select a, rank() over w, lag(c, 1, '-') over w from t
	window w as (partition by b order by a rows between 3 preceding and current row) order by a limit 9;
with recursive r(n, f) as (values (1, 1::numeric) union all select n + 1, f * (n + 1) from r where n < 30)
	select max(f) from r;
select percentile_cont(0.3) within group (order by a), mode() within group (order by b) from t;

-- sorts and hashes that spill, parallel workers, compiled expressions
set work_mem = '64kB';
select count(*), sum(length(c)) from (select c from t cross join generate_series(1, 8) order by c) s;
select count(distinct c || g) from t cross join generate_series(1, 4) g;
reset work_mem;
set max_parallel_workers_per_gather = 2; set parallel_setup_cost = 0; set parallel_tuple_cost = 0;
set min_parallel_table_scan_size = 0;
select sum(a), count(*) from t where c like '%a%';
reset max_parallel_workers_per_gather;
set jit = on; set jit_above_cost = 0;
select sum(a * 2 + b), max(d) from t join u using (a);
set jit = off;

-- errors, which longjmp to the loop; savepoints; exceptions in blocks
select 1 / 0;
select 'x'::int;
insert into u values (1, 1, 'double');
insert into u values (5000, 1e7, 'too large');
begin; savepoint s; select no_such_column; rollback to s; select 'still here'; commit;
do $$
declare n int := 0;
begin
	for i in 1..20 loop
		begin
			if i % 3 = 0 then raise exception 'third %', i; end if;
			perform 1 / (i % 2);
		exception when division_by_zero then n := n + 1; when others then n := n + 100;
		end;
	end loop;
	raise notice 'caught %', n;
end $$;
set statement_timeout = 300;
select count(*) from generate_series(1, 1e12::bigint) g;
reset statement_timeout;
create function f(n int) returns int language plpgsql as
	$$ begin if n < 2 then return n; end if; return f(n - 1) + f(n - 2); end $$;
select f(9);
create function deep(n int) returns int language plpgsql as $$ begin return deep(n + 1); end $$;
set max_stack_depth = '200kB';
select deep(1);
reset max_stack_depth;

-- kinds of index
create index on t using btree (b, a);
create index on t using hash (c);
create index on t using brin (a);
create table v (p point, q int[], s tsvector, k jsonb, g int4range);
insert into v select point(a, a % 10), array[a, a % 5], to_tsvector('english', 'running dogs ' || c),
	jsonb_build_object('a', a, 'l', array[1, a]), int4range(a, a + 10) from t where a < 150;
create index on v using gist (p); create index on v using gin (q); create index on v using gin (s);
create index on v using gin (k jsonb_path_ops); create index on v using spgist (g);
set enable_seqscan = off;
select count(*) from v where p <@ box '((0,0),(50,5))';
select count(*) from v where q @> array[3]; select count(*) from v where s @@ to_tsquery('run & dog');
select count(*) from v where k @> '{"l": [7]}'; select count(*) from v where g && int4range(20, 25);
select a from t where c = md5('77'); reset enable_seqscan;
explain (costs off) select * from t where b = 3 and a < 10;

-- types
select '2020-02-29'::date + interval '1 year', extract(epoch from '2001-01-01'::timestamptz),
	'{1,2}'::int[] || 3, '[1,5)'::int4range * '[3,9)', '10.0.0.0/8'::inet >> '10.1.1.1', 2::numeric ^ 200;
select jsonb_path_query('{"a": [1, 2, {"b": 3}]}', '$.a[*] ? (@ > 1)'), to_json(row(1, 'x'));
select regexp_replace('abc123def', '(\d+)', '<\1>'), 'äöü' ~ '^\w+$', to_char(1234.5, '9G999D00'), initcap('a bc');
select encode(sha256('x'), 'hex'), xmin is not null from u where a = 1;
create type mood as enum ('low', 'high'); create domain small as int check (value < 10);
select 'high'::mood > 'low', 12::small; create type pair as (x int, y text); select (row(1, 'a')::pair).y;

-- triggers, rules, views, partitions, merges
create table log (what text);
create function noted() returns trigger language plpgsql as
	$$ begin insert into log values (tg_op || coalesce(new.a, old.a)); return new; end $$;
create trigger w after insert or update or delete on u for each row execute function noted();
insert into u values (9001, 1, 'a') on conflict do nothing; update u set d = 2 where a = 9001;
insert into u values (9001, 5, 'b') on conflict (a) do update set e = excluded.e returning *;
merge into u using (values (9001), (9002)) n(a) on u.a = n.a
	when matched then delete when not matched then insert values (n.a, 0, 'm');
table log;
create view w as select a, b from t where b < 3 with check option;
insert into w values (1000, 5); insert into w values (1000, 1); select count(*) from w;
create table part (a int, b text) partition by range (a);
create table part1 partition of part for values from (0) to (100);
create table part2 partition of part for values from (100) to (1000);
insert into part select a, c from t where a < 1000; insert into part values (5000, 'none');
select tableoid::regclass, count(*) from part group by 1 order by 1;
create materialized view mv as select b, count(*) from t group by b; refresh materialized view mv; table mv order by b;

-- cursors, prepared statements, copies, large objects, notifications, two phases
begin; declare c scroll cursor for select a from t order by a; fetch 3 from c; fetch last from c;
fetch prior from c; close c; commit;
prepare p(int) as select c from t where a = $1; execute p(5); execute p(6); deallocate p;
copy (select a, b from t where a < 4) to stdout with csv header;
copy u from stdin;
7001	3.5	copied
7002	\N	\N
\.
select * from u where a > 7000 order by a;
select lo_from_bytea(77, 'large'); select lo_get(77); select lo_unlink(77);
listen n; select pg_notify('n', 'told') is null; unlisten n;
select pg_advisory_lock(1), pg_try_advisory_lock(1); select pg_advisory_unlock_all();
vacuum full t; vacuum analyze u; reindex table t; cluster t using t_b_a_idx; checkpoint;
truncate t; alter table u add column z int default 7; alter table u alter d type text; select * from u where a = 1;
drop table t cascade;
