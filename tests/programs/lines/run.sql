CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c REAL); CREATE INDEX tb ON t(b);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120)
INSERT INTO t SELECT i, 'name' || (i * 7 % 31), i / 3.0 FROM n;
SELECT b, count(*), sum(c), group_concat(a) FROM t GROUP BY b HAVING count(*) > 3 ORDER BY 2, 1;
UPDATE t SET b = upper(b) WHERE a % 3 = 0; DELETE FROM t WHERE a BETWEEN 20 AND 40;
SELECT x.a, y.a FROM t x JOIN t y ON x.b = y.b AND x.a < y.a WHERE x.b LIKE 'name1%' LIMIT 9;
CREATE VIEW v AS SELECT a, printf('%05d', a) p FROM t; SELECT max(p), min(p) FROM v;
BEGIN; INSERT INTO t(b) VALUES('z'); ROLLBACK; SELECT json_extract('{"a":[1,2]}', '$.a[1]');
EXPLAIN QUERY PLAN SELECT * FROM t WHERE b = 'x'; ALTER TABLE t ADD COLUMN d DEFAULT 5;
SELECT count(*) OVER (PARTITION BY b ORDER BY a) FROM t WHERE a < 15; PRAGMA integrity_check;
