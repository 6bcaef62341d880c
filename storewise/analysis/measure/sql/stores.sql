-- What a load left on disk, and what the verification found.

-- The last size of each worker's (or node's) stores, summed; one at the end of a phase is later
-- than those of its seconds.
CREATE TEMP VIEW sizes AS
SELECT trial, phase, step, sum(value) AS store_bytes
FROM (
    FROM samples WHERE metric = 'store_bytes'
    QUALIFY coalesce(second, 'infinity'::DOUBLE) = max(coalesce(second, 'infinity'::DOUBLE))
        OVER (PARTITION BY trial, phase, step, worker, node)
) GROUP BY ALL;

-- What each load took in: its documents, and the bytes of the text that they came from.
CREATE TEMP VIEW loaded AS
SELECT trial, phase, step, any_value(store_bytes) AS store_bytes,
    sum(value) FILTER (metric = 'documents') AS documents,
    coalesce(sum(value) FILTER (metric = 'bytes'), 0) AS bytes
FROM totals SEMI JOIN loads USING (trial, phase) LEFT JOIN sizes USING (trial, phase, step)
WHERE operation = 'insert' GROUP BY ALL HAVING documents > 0;

CREATE TEMP VIEW loading AS
SELECT trial, phase, step, count(DISTINCT worker) AS workers
FROM samples SEMI JOIN loads USING (trial, phase)
WHERE metric = 'duration' AND worker IS NOT NULL GROUP BY ALL;

-- Files of embedded stores, known where each loading worker tells its own.
CREATE TEMP VIEW inodes AS
SELECT trial, phase, step, metric, sum(value) AS value
FROM samples JOIN loading USING (trial, phase, step)
WHERE worker IS NOT NULL AND metric IN (FROM inode_metrics)
GROUP BY ALL HAVING count(DISTINCT worker) = any_value(workers);

-- A number that was not taken is null.
CREATE TEMP VIEW verification AS
SELECT trial, operation AS kind,
    sum(value) FILTER (metric = 'expected_documents') AS expected,
    sum(value) FILTER (metric = 'counted_documents') AS counted,
    sum(value) FILTER (metric = 'checked_documents') AS checked,
    -- Without a count of its own, what is missing is what was looked up and not found.
    coalesce(sum(value) FILTER (metric = 'lost_documents'), greatest(expected - counted, 0))
        AS lost,
    sum(value) FILTER (metric = 'wrong_documents') AS wrong
FROM every_sample
WHERE operation IS NOT NULL AND ends_with(metric, '_documents') GROUP BY ALL;
