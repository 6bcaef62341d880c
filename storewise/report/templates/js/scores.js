// The stores by weights: the rule of storewise/analysis/decision. A store's score in a round is the
// weighted sum of the logarithms of its figures; score = store + round + error.
const WORTH = Math.log(1.2);
const ROUNDING = 1e-9;
const sum = (values) => values.reduce((a, b) => a + b, 0);
const mean = (values) => sum(values) / values.length;

/** The stores that the answer names, from scores (store x round) and critical values for this number
 * of stores (`model.balanced`); `places` are the indices of the stores in its lists. */
function namedOf(scores, critical, places) {
  const [k, n] = [scores.length, scores[0].length];
  const means = scores.map(mean);
  const best = means.indexOf(Math.max(...means));
  if (k < 2 || !critical.freedom) return { means, named: means.map(() => true) };
  const whole = mean(means);
  const rounds = scores[0].map((_, r) => (critical.rounds ? mean(scores.map((row) => row[r])) - whole : 0));
  const squares = scores.map((row, i) => sum(row.map((z, r) => (z - means[i] - rounds[r]) ** 2)));
  const pooled = sum(squares) / critical.freedom;
  const share = critical.freedom / k;
  const variances = squares.map((square) => Math.max(pooled, square / share));
  const apart = squares.map((square) => square / share > critical.limit * ((sum(squares) - square) / (critical.freedom - share)) && square / share > ROUNDING ** 2);
  const behind = (table) => means.map((one, i) => {
    if (i === best) return false;
    const gap = means[best] - one;
    const error = Math.sqrt((variances[best] + variances[i]) / n) + ROUNDING;
    return gap >= WORTH - ROUNDING && gap > table[places[best]][apart[best] || apart[i] ? 1 : 0] * error;
  });
  let out = behind(critical.t);
  if (out.filter((one) => !one).length > 1) out = behind(critical.tukey);
  return { means, named: out.map((one) => !one) };
}

/** Stores by weights (criterion -> weight), the best first: choice, score relative to the best,
 * whether it is named. A criterion counts if two stores have it; if fewer than two stores have all
 * these, only criteria count that all stores have. */
function scored(data, weights) {
  const weight = data.criteria.map(({ name }) => weights[name] ?? 0);
  const having = (c) => data.parts.filter((parts) => parts[c]).length;
  const all = data.criteria.map((_, c) => c).filter((c) => weight[c] > 0);
  const judgedBy = (least) => {
    const used = all.filter((c) => having(c) >= least);
    return [used, used.length ? data.stores.map((_, s) => s).filter((s) => used.every((c) => data.parts[s][c])) : []];
  };
  let [used, places] = judgedBy(Math.min(2, data.stores.length));
  if (places.length < 2) [used, places] = judgedBy(data.stores.length);
  if (!places.length) return [];
  const total = sum(used.map((c) => weight[c]));
  const n = data.parts[places[0]][used[0]].length;
  const scores = places.map((s) => Array.from({ length: n }, (_, r) => sum(used.map((c) => (weight[c] / total) * data.parts[s][c][r]))));
  const { means, named } = namedOf(scores, data.critical[places.length - 1], places);
  const best = Math.max(...means);
  return places.map((s, i) => ({ choice: data.stores[s], named: named[i], relative: Math.exp(means[i] - best) }))
    .sort((a, b) => b.relative - a.relative || (a.choice < b.choice ? -1 : 1));
}
