-- What servers and their hosts were busy with in each step, and how documents lay on them.
-- A node samples in seconds of its own, from its start to its end: each sample is given to the
-- steps by Unix time, in proportion where it lies in two.

-- From the first worker's start to the last one's end.
CREATE TEMP TABLE spans AS
SELECT trial, phase, step, min(start) AS start, max(start + lasted) AS stop
FROM (
    SELECT trial, phase, step, worker,
        min(value) FILTER (metric = 'started_at') AS start,
        max(value) FILTER (metric = 'duration' AND operation IS NULL) AS lasted
    FROM samples WHERE worker IS NOT NULL AND metric IN ('started_at', 'duration') GROUP BY ALL
)
WHERE start IS NOT NULL AND lasted IS NOT NULL GROUP BY ALL;

-- The clock of a node's host is brought to that of the session, unless clients ran on the same
-- host: they had the same clock. `store_cpu` in cores.
CREATE TEMP TABLE of_nodes AS
WITH rows AS (
    SELECT trial, host, node, second, metric, value FROM every_sample
    WHERE phase = 'session' AND node IS NOT NULL
), starts AS (
    SELECT trial, node, max(value) FILTER (metric = 'started_at') AS start,
        coalesce(max(value) FILTER (metric = 'clock_offset'), 0) AS clock_offset
    FROM rows WHERE second IS NULL GROUP BY ALL
), shared AS (
    SELECT DISTINCT trial, host, true AS clients FROM samples
    WHERE worker IS NOT NULL AND metric IN ('started_at', 'duration')
), lengths AS (
    SELECT trial, node, second, max(value) AS length
    FROM rows WHERE metric = 'sample_length' GROUP BY ALL
)
SELECT trial, host, node, second, metric, coalesce(length, 1) AS length,
    value / if(metric = 'store_cpu', coalesce(length, 1), 1) AS value,
    starts.start - if(clients, 0, clock_offset) + second AS start
FROM rows JOIN starts USING (trial, node) LEFT JOIN shared USING (trial, host)
LEFT JOIN lengths USING (trial, node, second)
WHERE second IS NOT NULL AND starts.start IS NOT NULL;

-- `length` is how many seconds of a sample lie in the step. What touches no step (forming, pauses,
-- verification, closing) stays phase "session".
CREATE TEMP TABLE node_samples AS
WITH sampled AS (
    SELECT DISTINCT trial, host, node, second, start, length FROM of_nodes
), touched AS (
    SELECT sampled.trial, phase, step, host, node, second, greatest(
        0, least(sampled.start + length, stop) - greatest(sampled.start, spans.start)
    ) AS inside
    FROM sampled JOIN spans ON sampled.trial = spans.trial
), given AS (
    FROM touched
    UNION ALL
    SELECT trial, 'session', 0, host, node, second, any_value(length)
    FROM sampled LEFT JOIN touched USING (trial, host, node, second) GROUP BY ALL
    HAVING coalesce(sum(inside), 0) < 1e-6
), long_enough AS (
    FROM given QUALIFY inside >= if(
        max(inside) OVER (PARTITION BY trial, node, phase, step) >= 0.25, 0.25, 1e-6
    )
)
SELECT trial, phase, step, host, node, metric, value, inside AS length,
    second - min(second) OVER (PARTITION BY trial, node, phase, step) AS second
FROM of_nodes JOIN long_enough USING (trial, host, node, second);

-- Of nodes their own figures, and those of hosts that had no clients in the step.
CREATE TEMP VIEW node_load AS
WITH means AS (
    SELECT trial, phase, step, host, node, metric,
        sum(value * length) / sum(length) AS mean, max(value) AS max
    FROM node_samples GROUP BY ALL
)
FROM means WHERE metric IN ('store_cpu', 'store_rss', 'store_bytes')
UNION ALL
SELECT * REPLACE ('' AS node) FROM means
ANTI JOIN (FROM host_load WHERE metric = 'cpu_user') AS clients USING (trial, phase, step, host)
WHERE metric IN (FROM host_metrics);

-- What each host did in each second, in % of its time and B/s.
CREATE TEMP VIEW cpu AS
WITH rows AS (
    SELECT trial, phase, step, host, second, metric, value FROM host_samples
    UNION ALL
    SELECT trial, phase, step, host, second, metric, value FROM node_samples
    ANTI JOIN (FROM host_load WHERE metric = 'cpu_user') AS clients
        USING (trial, phase, step, host)
    WHERE phase <> 'session'
)
SELECT trial, phase, step, host, second::DOUBLE AS second,
    -- Kinds of processor time that no sample has took none; no other figure is made up.
    coalesce(avg(value) FILTER (metric = 'cpu_user'), 0) AS user,
    coalesce(avg(value) FILTER (metric = 'cpu_system'), 0) AS system,
    coalesce(avg(value) FILTER (metric = 'cpu_iowait'), 0) AS iowait,
    coalesce(avg(value) FILTER (metric = 'cpu_steal'), 0) AS steal,
    avg(value) FILTER (metric = 'disk_read') AS disk_read,
    avg(value) FILTER (metric = 'disk_write') AS disk_write,
    avg(value) FILTER (metric = 'disk_busy') AS disk_busy,
    avg(value) FILTER (metric = 'network_received') AS network_received,
    avg(value) FILTER (metric = 'network_sent') AS network_sent
FROM rows GROUP BY ALL HAVING count(*) FILTER (
    starts_with(metric, 'disk_') OR starts_with(metric, 'network_')
    OR metric IN ('cpu_user', 'cpu_system', 'cpu_iowait', 'cpu_steal')
) > 0;

-- How the operations of each step spread over the nodes (or stores) that own the documents.
CREATE TEMP VIEW balance AS
WITH owners AS (
    SELECT trial, phase, step, operation, node,
        coalesce(sum(value) FILTER (metric = 'owner_operations'), 0) AS operations,
        coalesce(sum(value) FILTER (metric = 'owner_errors'), 0) AS errors
    FROM samples WHERE metric IN ('owner_operations', 'owner_errors') GROUP BY ALL
)
SELECT *, operations / nullif(sum(operations) OVER of_step, 0) AS share
FROM owners WINDOW of_step AS (PARTITION BY trial, phase, step, operation);
