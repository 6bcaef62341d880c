-- Rates of steps and of their operations: of the steady part, else of all that followed the
-- warm-up, else of the whole step. A load does a fixed work: all its documents over its wall time.

CREATE TEMP VIEW parts AS
SELECT trial, phase, step,
    count(*) FILTER (steady) AS seconds,
    sum(operations) FILTER (steady) AS operations,
    sum(documents) FILTER (steady) AS documents,
    coalesce(sum(length) FILTER (warmup), 0) AS warm,
    coalesce(sum(operations) FILTER (warmup), 0) AS warm_operations,
    coalesce(sum(documents) FILTER (warmup), 0) AS warm_documents
FROM series GROUP BY ALL;

-- Documents/s of a load without the time between the store's calls, summed over processes.
-- The threads of a process share its time, as the processes of a worker do.
CREATE TEMP VIEW insert_rates AS
WITH told AS (
    FROM counts WHERE second IS NULL
    UNION ALL
    FROM counts ANTI JOIN (FROM counts WHERE second IS NULL) AS whole
        USING (trial, phase, step, metric)
), workers AS (
    SELECT trial, phase, step, worker, process,
        sum(value) FILTER (metric = 'documents' AND operation = 'insert') AS documents,
        sum(value) FILTER (metric = 'service_time_sum') AS service
    FROM told GROUP BY ALL
)
SELECT trial, phase, step,
    sum(documents / service * coalesce(threads, 1)
        * if(process IS NULL, coalesce(processes, 1), 1)) AS rate
FROM workers LEFT JOIN clients USING (trial, phase)
WHERE service > 0 AND documents IS NOT NULL GROUP BY ALL;

CREATE TEMP VIEW throughput AS
WITH whole AS (
    SELECT trial, phase, step,
        coalesce(sum(value) FILTER (metric = 'operations'), 0) AS all_operations,
        coalesce(sum(value) FILTER (metric = 'documents'), 0) AS all_documents,
        coalesce(sum(value) FILTER (metric = 'errors'), 0) AS errors,
        sum(value) FILTER (metric = 'operations' AND operation = 'insert') AS inserts,
        sum(value) FILTER (metric = 'service_time_sum') AS service,
        coalesce(sum(value) FILTER (metric = 'prepare_time_sum'), 0) AS prepare
    FROM totals GROUP BY ALL
), every AS (
    SELECT * EXCLUDE (errors), coalesce(errors, 0) AS errors,
        inserts IS NOT NULL AND coalesce(told, false) AS load,
        seconds > 0 AND NOT load AS steady,
        wall > warm AND all_operations > warm_operations AS after, -- something ended after it
        -- Of the clients' time, what they spent between the store's calls.
        if(prepare > 0, prepare / (prepare + coalesce(service, 0)), 0) AS own,
    FROM steps JOIN parts USING (trial, phase, step)
    LEFT JOIN whole USING (trial, phase, step)
    LEFT JOIN insert_rates USING (trial, phase, step)
    LEFT JOIN (SELECT *, true AS told FROM loads) AS loads USING (trial, phase)
), wide AS (
    SELECT trial, phase, step, errors, wall AS duration, if(load, all_documents, NULL) AS documents,
        CASE WHEN load THEN all_documents / wall WHEN steady THEN documents / seconds
            WHEN after THEN (all_documents - warm_documents) / (wall - warm)
            ELSE coalesce(all_documents, 0) / wall END AS documents_per_s,
        CASE WHEN load THEN inserts / wall WHEN steady THEN operations / seconds
            WHEN after THEN (all_operations - warm_operations) / (wall - warm)
            ELSE coalesce(all_operations, 0) / wall END AS operations_per_s,
        if(load, own, NULL) AS parse_share,
        if(load, rate, NULL) AS insert_documents_per_s,
        if(steady, own, NULL) AS client_share -- a short step's is of its first operation
    FROM every
)
UNPIVOT wide
ON errors, duration, documents, documents_per_s, operations_per_s, parse_share, insert_documents_per_s,
    client_share
INTO NAME measure VALUE value;

CREATE TEMP VIEW operation_rates AS
WITH timed AS (
    SELECT trial, phase, step, operation,
        coalesce(sum(value) FILTER (steady), 0) AS inside,
        coalesce(sum(value) FILTER (series.warmup), 0) AS warmed
    FROM per_second JOIN series USING (trial, phase, step, second)
    WHERE metric = 'operations' GROUP BY ALL
)
SELECT trial, phase, step, operation,
    CASE WHEN seconds > 0 AND inside > 0 THEN inside / seconds
        WHEN wall > warm AND value > coalesce(warmed, 0)
            THEN (value - coalesce(warmed, 0)) / (wall - warm)
        ELSE value / wall END AS operations_per_s
FROM totals JOIN steps USING (trial, phase, step) JOIN parts USING (trial, phase, step)
LEFT JOIN timed USING (trial, phase, step, operation)
WHERE metric = 'operations';

-- Measures of steps, of each operation that succeeded and of all together. `served` is the share
-- of what an open loop was to begin.
CREATE TEMP VIEW step_measures AS
WITH failed AS (
    SELECT trial, phase, step, operation, value AS errors FROM totals WHERE metric = 'errors'
), meant AS (
    SELECT trial, phase, step, sum(value) AS intended
    FROM samples WHERE metric = 'intended_operations' GROUP BY ALL
), ended AS (
    SELECT trial, phase, step, sum(value) AS operations
    FROM totals WHERE metric = 'operations' GROUP BY ALL
), wide AS (
    SELECT trial, phase, step, operation, operations_per_s, coalesce(errors, 0) AS errors,
        NULL::DOUBLE AS runtime, NULL::DOUBLE AS served
    FROM operation_rates LEFT JOIN failed USING (trial, phase, step, operation)
    UNION ALL
    SELECT trial, phase, step, 'all', coalesce(rate, 0), coalesce(errors, 0), wall,
        if(intended > 0, coalesce(operations, 0) / intended, NULL)
    FROM steps
    LEFT JOIN (
        SELECT trial, phase, step, sum(operations_per_s) AS rate FROM operation_rates GROUP BY ALL
    ) AS rates USING (trial, phase, step)
    LEFT JOIN (
        SELECT trial, phase, step, sum(errors) AS errors FROM failed GROUP BY ALL
    ) AS failures USING (trial, phase, step)
    LEFT JOIN ended USING (trial, phase, step) LEFT JOIN meant USING (trial, phase, step)
)
UNPIVOT wide ON operations_per_s, errors, runtime, served INTO NAME measure VALUE value;

-- Mean time of a call in s: of whole steps, and of what ended after the warm-up.
CREATE TEMP MACRO mean_time(value, metric) AS sum(value) FILTER (metric = 'service_time_sum')
    / sum(value) FILTER (metric = 'operations' AND value > 0);
CREATE TEMP VIEW mean_times AS
SELECT trial, phase, step, operation, mean_time(value, metric) AS seconds
FROM totals GROUP BY ALL HAVING seconds IS NOT NULL;
CREATE TEMP VIEW mean_times_after_warmup AS
SELECT trial, phase, step, operation, mean_time(value, metric) AS seconds
FROM per_second WHERE NOT warmup GROUP BY ALL HAVING seconds IS NOT NULL;
