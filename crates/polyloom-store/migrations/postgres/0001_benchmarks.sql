-- The mathematics.
CREATE TABLE canonical_graphs (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  bits_hash BYTEA NOT NULL UNIQUE CHECK (length(bits_hash) = 32),
  mathematics_hash BYTEA NOT NULL CHECK (length(mathematics_hash) = 32),
  canonical_text TEXT NOT NULL,
  mathematics_text TEXT NOT NULL
);
CREATE INDEX canonical_graphs_by_mathematics ON canonical_graphs (mathematics_hash);

-- The recipes.
CREATE TABLE implementations (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  graph_id BIGINT NOT NULL REFERENCES canonical_graphs (id),
  recipe_hash BYTEA NOT NULL CHECK (length(recipe_hash) = 32),
  recipe_version BIGINT NOT NULL,
  identity TEXT NOT NULL CHECK (identity IN ('bits', 'mathematics')),
  is_default BIGINT NOT NULL CHECK (is_default IN (0, 1)),
  recipe TEXT NOT NULL,
  UNIQUE (graph_id, recipe_hash),
  UNIQUE (graph_id, id)
);

-- The hardware and software.
CREATE TABLE environments (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  fingerprint BYTEA NOT NULL UNIQUE CHECK (length(fingerprint) = 32),
  cpu TEXT NOT NULL,
  gpu TEXT,
  facts TEXT NOT NULL
);

-- Shapes, dtypes and layouts.
CREATE TABLE workloads (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  graph_id BIGINT NOT NULL REFERENCES canonical_graphs (id),
  workload_hash BYTEA NOT NULL CHECK (length(workload_hash) = 32),
  arguments TEXT NOT NULL,
  UNIQUE (graph_id, workload_hash),
  UNIQUE (graph_id, id)
);

-- Every measurement. Times are picoseconds, blobs stand last: rows are read without them.
CREATE TABLE benchmark_traces (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  trace_hash BYTEA NOT NULL UNIQUE CHECK (length(trace_hash) = 32),
  graph_id BIGINT NOT NULL,
  workload_id BIGINT NOT NULL,
  environment_id BIGINT NOT NULL REFERENCES environments (id),
  policy TEXT NOT NULL CHECK (policy <> ''),
  implementation_id BIGINT NOT NULL,
  code_hash BYTEA NOT NULL CHECK (length(code_hash) = 32),
  session TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('ok', 'does_not_compile', 'wrong', 'timed_out', 'too_noisy', 'failed')),
  measured_at BIGINT NOT NULL,
  n_samples BIGINT NOT NULL,
  n_outliers BIGINT,
  min_ps BIGINT,
  p05_ps BIGINT,
  median_ps BIGINT,
  p95_ps BIGINT,
  max_ps BIGINT,
  mean_ps BIGINT,
  mad_ps BIGINT,
  n_warm_ups BIGINT NOT NULL,
  error DOUBLE PRECISION,
  reason TEXT,
  runner TEXT NOT NULL,
  observations TEXT NOT NULL,
  warm_ups BYTEA NOT NULL,
  samples BYTEA NOT NULL,
  FOREIGN KEY (graph_id, workload_id) REFERENCES workloads (graph_id, id),
  FOREIGN KEY (graph_id, implementation_id) REFERENCES implementations (graph_id, id),
  CHECK ((status = 'ok') = (reason IS NULL)),
  CHECK ((n_samples > 0) = (median_ps IS NOT NULL)),
  CHECK (status <> 'ok' OR n_samples > 0)
);
CREATE INDEX benchmark_traces_by_key ON benchmark_traces (workload_id, environment_id, policy, measured_at);
CREATE INDEX benchmark_traces_wrong ON benchmark_traces (implementation_id, code_hash, workload_id)
  WHERE status = 'wrong';
