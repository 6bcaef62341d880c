-- Operations of each second and of whole steps, and when the steps took place.

-- Where a worker reports its processes apart, its own sums are left out: each count is there once.
CREATE TEMP VIEW counts AS
SELECT * FROM samples ANTI JOIN (
    SELECT DISTINCT trial, phase, step, worker, metric, second IS NULL AS whole
    FROM samples WHERE operation IS NOT NULL AND process IS NOT NULL
) AS apart
    ON samples.process IS NULL
    AND samples.trial = apart.trial AND samples.phase = apart.phase AND samples.step = apart.step
    AND samples.worker IS NOT DISTINCT FROM apart.worker
    AND samples.metric = apart.metric AND (samples.second IS NULL) = apart.whole
WHERE operation IS NOT NULL AND metric IN (
    'operations', 'documents', 'bytes', 'errors', 'service_time_sum', 'prepare_time_sum'
);

CREATE TEMP TABLE per_second AS
SELECT trial, phase, step, operation, second, warmup, metric, sum(value) AS value
FROM counts WHERE second IS NOT NULL GROUP BY ALL;

-- Of whole steps, made of their seconds where workers give no totals.
CREATE TEMP TABLE totals AS
WITH told AS (
    SELECT trial, phase, step, operation, metric, sum(value) AS value
    FROM counts WHERE second IS NULL GROUP BY ALL
)
FROM told
UNION ALL
SELECT trial, phase, step, operation, metric, sum(value)
FROM per_second ANTI JOIN told USING (trial, phase, step, metric) GROUP BY ALL;

-- Wall time of the slowest worker (`wall`) and of the fastest, in s. All start together.
CREATE TEMP TABLE steps AS
SELECT trial, phase, step, max(lasted) AS wall, min(lasted) AS shortest
FROM (
    SELECT trial, phase, step, worker, max(value) AS lasted FROM samples
    WHERE metric = 'duration' AND operation IS NULL GROUP BY ALL
) GROUP BY ALL;

-- Phases that load: the driver says so; in results where it does not, those that only insert.
CREATE TEMP TABLE loads AS
WITH told AS (SELECT DISTINCT trial, phase FROM samples WHERE metric = 'acknowledged')
FROM told
UNION ALL
SELECT trial, phase FROM samples ANTI JOIN told USING (trial)
WHERE operation IS NOT NULL GROUP BY ALL
HAVING bool_or(operation = 'insert') AND bool_and(operation IN ('insert', 'finish'));

-- What happened in each second, workers summed; seconds in which nothing ended are 0. `length` is
-- how much of the second lies in the step. The steady part: whole seconds after the warm-up and
-- the first one in which every worker was active, of phases of 5 s and more, if 10 operations ended.
CREATE TEMP TABLE series AS
WITH seconds AS (
    SELECT *, unnest(range(greatest(1, ceil(wall - 1e-9))::BIGINT)) AS second FROM steps
), sums AS (
    SELECT trial, phase, step, second,
        sum(value) FILTER (metric = 'operations') AS operations,
        sum(value) FILTER (metric = 'documents') AS documents,
        sum(value) FILTER (metric = 'errors') AS errors,
        max(second) FILTER (warmup AND metric = 'operations') AS warm
    FROM per_second GROUP BY ALL
), warmups AS (
    SELECT trial, phase, step, coalesce(max(warm) + 1, 0) AS warm FROM sums GROUP BY ALL
), filled AS (
    SELECT trial, phase, step, second, greatest(1e-9, least(1.0, wall - second)) AS length,
        coalesce(operations, 0) AS ended, coalesce(documents, 0) AS written,
        coalesce(errors, 0) AS failed, coalesce(warmups.warm, 0) AS warm_seconds,
        wall >= 5 AND second BETWEEN greatest(warm_seconds, 1) AND floor(shortest + 1e-9) - 1 AS inside
    FROM seconds
    LEFT JOIN sums USING (trial, phase, step, second)
    LEFT JOIN warmups USING (trial, phase, step)
)
SELECT trial, phase, step, second, length,
    ended AS operations, written AS documents, failed AS errors,
    ended / length AS operations_per_s, written / length AS documents_per_s,
    second < warm_seconds AS warmup,
    inside AND sum(ended) FILTER (inside) OVER (PARTITION BY trial, phase, step) >= 10 AS steady
FROM filled;
