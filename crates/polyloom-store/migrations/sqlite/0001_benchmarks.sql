-- The mathematics.
CREATE TABLE canonical_graphs (
  id INTEGER PRIMARY KEY,
  bits_hash BLOB NOT NULL UNIQUE CHECK (length(bits_hash) = 32),
  mathematics_hash BLOB NOT NULL CHECK (length(mathematics_hash) = 32),
  canonical_text TEXT NOT NULL,
  mathematics_text TEXT NOT NULL
) STRICT;
CREATE INDEX canonical_graphs_by_mathematics ON canonical_graphs (mathematics_hash);

-- The recipes.
CREATE TABLE implementations (
  id INTEGER PRIMARY KEY,
  graph_id INTEGER NOT NULL REFERENCES canonical_graphs (id),
  recipe_hash BLOB NOT NULL CHECK (length(recipe_hash) = 32),
  recipe_version INTEGER NOT NULL,
  identity TEXT NOT NULL CHECK (identity IN ('bits', 'mathematics')),
  is_default INTEGER NOT NULL CHECK (is_default IN (0, 1)),
  recipe TEXT NOT NULL,
  UNIQUE (graph_id, recipe_hash),
  UNIQUE (graph_id, id)
) STRICT;

-- The hardware and software.
CREATE TABLE environments (
  id INTEGER PRIMARY KEY,
  fingerprint BLOB NOT NULL UNIQUE CHECK (length(fingerprint) = 32),
  cpu TEXT NOT NULL,
  gpu TEXT,
  facts TEXT NOT NULL
) STRICT;

-- Shapes, dtypes and layouts.
CREATE TABLE workloads (
  id INTEGER PRIMARY KEY,
  graph_id INTEGER NOT NULL REFERENCES canonical_graphs (id),
  workload_hash BLOB NOT NULL CHECK (length(workload_hash) = 32),
  arguments TEXT NOT NULL,
  UNIQUE (graph_id, workload_hash),
  UNIQUE (graph_id, id)
) STRICT;

-- Every measurement. Times are picoseconds, blobs stand last: rows are read without them.
CREATE TABLE benchmark_traces (
  id INTEGER PRIMARY KEY,
  trace_hash BLOB NOT NULL UNIQUE CHECK (length(trace_hash) = 32),
  graph_id INTEGER NOT NULL,
  workload_id INTEGER NOT NULL,
  environment_id INTEGER NOT NULL REFERENCES environments (id),
  policy TEXT NOT NULL CHECK (policy <> ''),
  implementation_id INTEGER NOT NULL,
  code_hash BLOB NOT NULL CHECK (length(code_hash) = 32),
  session TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('ok', 'does_not_compile', 'wrong', 'timed_out', 'too_noisy', 'failed')),
  measured_at INTEGER NOT NULL,
  n_samples INTEGER NOT NULL,
  n_outliers INTEGER,
  min_ps INTEGER,
  p05_ps INTEGER,
  median_ps INTEGER,
  p95_ps INTEGER,
  max_ps INTEGER,
  mean_ps INTEGER,
  mad_ps INTEGER,
  n_warm_ups INTEGER NOT NULL,
  error REAL,
  reason TEXT,
  runner TEXT NOT NULL,
  observations TEXT NOT NULL,
  warm_ups BLOB NOT NULL,
  samples BLOB NOT NULL,
  FOREIGN KEY (graph_id, workload_id) REFERENCES workloads (graph_id, id),
  FOREIGN KEY (graph_id, implementation_id) REFERENCES implementations (graph_id, id),
  CHECK ((status = 'ok') = (reason IS NULL)),
  CHECK ((n_samples > 0) = (median_ps IS NOT NULL)),
  CHECK (status <> 'ok' OR n_samples > 0)
) STRICT;
CREATE INDEX benchmark_traces_by_key ON benchmark_traces (workload_id, environment_id, policy, measured_at);
CREATE INDEX benchmark_traces_wrong ON benchmark_traces (implementation_id, code_hash, workload_id)
  WHERE status = 'wrong';
