-- What hosts with clients were busy with, sampled by these each second of a step.

-- Samples too brief to say anything are left out, but for a step's only one: the kernel counts
-- processor time in ticks of 10 ms. `length` in s, 1 where none was taken.
CREATE TEMP TABLE host_samples AS
WITH rows AS MATERIALIZED (
    SELECT trial, phase, step, host, second, metric, value FROM samples
    WHERE second IS NOT NULL AND phase <> 'session'
        AND metric IN (FROM host_metrics UNION ALL SELECT 'sample_length')
), lengths AS (
    SELECT trial, phase, step, host, second, max(value) AS length
    FROM rows WHERE metric = 'sample_length' GROUP BY ALL
), known AS (
    SELECT *, max(length) OVER (PARTITION BY trial, phase, step, host) AS longest FROM lengths
)
SELECT trial, phase, step, host, second, metric, value, coalesce(length, 1) AS length
FROM rows LEFT JOIN known USING (trial, phase, step, host, second)
WHERE metric <> 'sample_length' AND (length IS NULL OR length >= 0.25 OR longest < 0.25);

CREATE TEMP TABLE processes AS
SELECT trial, phase, step, host, worker, process, second, metric, sum(value) AS value
FROM samples
WHERE second IS NOT NULL AND phase <> 'session' AND (
    metric IN ('client_cpu', 'store_cpu', 'router_cpu')
    -- At the end of a phase a process may be gone when its memory is asked for.
    OR metric IN ('client_rss', 'store_rss', 'router_rss') AND value > 0
)
GROUP BY ALL;

-- Processor time in cores: the mean over the wall time, the maximum of whole seconds. Of clients
-- the busiest process counts; stores and routers count together, and so does all memory.
CREATE TEMP TABLE host_load AS
WITH used AS (
    SELECT trial, phase, step, host, metric, second,
        if(metric = 'client_cpu', worker, NULL) AS worker,
        if(metric = 'client_cpu', process, NULL) AS process,
        sum(value) AS value
    FROM processes WHERE ends_with(metric, '_cpu') GROUP BY ALL
), cores AS (
    SELECT trial, phase, step, host, metric,
        if(any_value(wall) > 0, any_value(wall), count(*)) AS seconds,
        sum(value) / seconds AS mean,
        max(value) FILTER (wall IS NULL OR wall <= 0 OR second < floor(wall + 1e-9)) AS most
    FROM used LEFT JOIN steps USING (trial, phase, step)
    GROUP BY trial, phase, step, host, metric, worker, process
), memory AS (
    SELECT trial, phase, step, host, metric, second, sum(value) AS value
    FROM processes WHERE ends_with(metric, '_rss') GROUP BY ALL
)
SELECT trial, phase, step, host, '' AS node, metric,
    sum(value * length) / sum(length) AS mean, max(value) AS max
FROM host_samples GROUP BY ALL
UNION ALL
SELECT trial, phase, step, host, '', metric, max(mean), max(coalesce(most, mean))
FROM cores GROUP BY ALL
UNION ALL
SELECT trial, phase, step, host, '', metric, avg(value), max(value) FROM memory GROUP BY ALL;
