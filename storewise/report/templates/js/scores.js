// The score of each store by weights: the formula of storewise/analysis/verdict/scores.py, and its
// ranks (Student's t of the ratio of two scores, Holm's method over all pairs).
const LEVEL = 0.95;
const WEAKEST = ["none", "operations", "seconds", "pooled", "repeats", "counted"];
const weaker = (bases) => bases.reduce((a, b) => (WEAKEST.indexOf(a) <= WEAKEST.indexOf(b) ? a : b));

/** ln of the gamma function (Lanczos, SIAM J. Numer. Anal. 1, 1964). */
function lnGamma(x) {
  const c = [76.18009172947146, -86.50532032941677, 24.01409824083091, -1.231739572450155, 1.208650973866179e-3, -5.395239384953e-6];
  const t = x + 5.5 - (x + 0.5) * Math.log(x + 5.5);
  return -t + Math.log((2.5066282746310005 * c.reduce((sum, one, i) => sum + one / (x + 1 + i), 1.000000000190015)) / x);
}
/** The regularised incomplete beta function by its continued fraction (DLMF 8.17.22). */
function incompleteBeta(x, a, b) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - incompleteBeta(1 - x, b, a);
  const front = Math.exp(lnGamma(a + b) - lnGamma(a) - lnGamma(b) + a * Math.log(x) + b * Math.log1p(-x)) / a;
  const tiny = 1e-300;
  const away = (value) => (Math.abs(value) < tiny ? tiny : value);
  let [c, d] = [1, 1 / away(1 - ((a + b) * x) / (a + 1))];
  let fraction = d;
  for (let m = 1; m <= 1000; m += 1) {
    for (const term of [(m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m)), (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1))]) {
      d = 1 / away(1 + term * d);
      c = away(1 + term / c);
      fraction *= c * d;
    }
    if (Math.abs(c * d - 1) < 1e-15) break;
  }
  return front * fraction;
}
/** Both tails of Student's t; beyond 10,000 degrees of freedom it is the normal's to five digits. */
function bothTails(t, freedom) {
  const f = Math.min(freedom, 1e4);
  return incompleteBeta(f / (f + t * t), f / 2, 0.5);
}

/** Logarithm of a figure (greater is better), its error and degrees of freedom. */
function logarithm(figure, criterion) {
  const sign = criterion.more ? 1 : -1;
  const value = sign * Math.log(Math.max(figure.mean, criterion.least));
  if (figure.mean < criterion.least) return [value, 0, Infinity];
  if (figure.resampled === "none") return [value, NaN, NaN];
  return [value, figure.error ?? NaN, figure.error === 0 ? Infinity : figure.freedom ?? Infinity];
}
/** The weighted geometric mean of a store's figures as an estimate on logarithms. */
function product(choice, criteria) {
  const total = criteria.reduce((sum, one) => sum + one.weight, 0);
  let [centre, error, doubt] = [0, 0, 0];
  const uncertain = [];
  for (const one of criteria) {
    const figure = one.figures[choice];
    const [value, its, freedom] = logarithm(figure, one);
    const share = one.weight / total;
    centre += share * value;
    if (its === 0) continue;
    uncertain.push(figure);
    error += share * its;
    doubt += (share * its) / Math.sqrt(freedom);
  }
  const least = (figures) => Math.min(...figures.map(({ n }) => n));
  if (!uncertain.length) return { n: least(criteria.map((one) => one.figures[choice])), centre, resampled: "counted", error: 0, freedom: 1 };
  const n = least(uncertain);
  if (Number.isNaN(error)) return { n, centre, resampled: "none", error: NaN, freedom: NaN };
  return { n, centre, resampled: weaker(uncertain.map(({ resampled }) => resampled)), error, freedom: (error / doubt) ** 2 };
}
/** p of two scores being equal; NaN where nothing tells. */
function pOf(a, b) {
  if (a.resampled === "none" || b.resampled === "none") return NaN;
  const basis = weaker([a.resampled, b.resampled]);
  if (["seconds", "operations"].includes(basis)) return NaN;
  const distance = a.centre - b.centre;
  const error = Math.hypot(a.error, b.error);
  if (error === 0) return Math.abs(distance) > 1e-12 ? 0 : 1;
  const spread = (one) => one.error * Math.sqrt(one.n);
  const shared = a.resampled === "pooled" && b.resampled === "pooled" && Math.abs(spread(a) - spread(b)) <= 1e-9 * Math.max(spread(a), spread(b));
  const parts = [a, b].filter((one) => one.error > 0);
  const freedom = shared ? a.freedom : error ** 4 / parts.reduce((sum, one) => sum + one.error ** 4 / one.freedom, 0);
  return bothTails(distance / error, freedom);
}
/** Pairs that differ, as "i,j": Holm's step-down method. */
function differing(estimates) {
  const pairs = [];
  estimates.forEach((a, i) => estimates.slice(i + 1).forEach((b, j) => {
    const p = pOf(a, b);
    if (!Number.isNaN(p)) pairs.push({ pair: `${i},${i + 1 + j}`, p });
  }));
  pairs.sort((a, b) => a.p - b.p);
  const different = new Set();
  for (const [place, { pair, p }] of pairs.entries()) {
    if (p * (pairs.length - place) > 1 - LEVEL + 1e-12) break;
    different.add(pair);
  }
  return different;
}
function ranks(estimates) {
  const different = differing(estimates);
  const places = estimates.map(() => 0);
  let left = estimates.map((_, i) => i);
  for (let rank = 1; left.length; rank += 1) {
    const best = left.reduce((a, b) => (estimates[b].centre > estimates[a].centre ? b : a));
    const group = left.filter((i) => !different.has(`${Math.min(i, best)},${Math.max(i, best)}`));
    for (const i of group) places[i] = rank;
    left = left.filter((i) => !group.includes(i));
  }
  return places;
}
/** Stores by weights (criterion -> weight), the best first: choice, relative to the best, rank (0:
 * it lacks a criterion). The criteria are those that all stores have, if fewer than two have all. */
function scored(every, weights) {
  let criteria = every.map((one) => ({ ...one, weight: weights[one.name] ?? 0 })).filter((one) => one.weight > 0 && Object.keys(one.figures).length);
  const has = (choice) => criteria.every((one) => choice in one.figures);
  const choices = Array.from(new Set(criteria.flatMap((one) => Object.keys(one.figures)))).sort();
  if (choices.filter(has).length <= 1 && choices.length >= 2) criteria = criteria.filter((one) => choices.every((choice) => choice in one.figures));
  const whole = criteria.length ? choices.filter(has) : [];
  if (!whole.length) return [];
  const products = whole.map((choice) => product(choice, criteria));
  const places = ranks(products);
  const best = Math.max(...products.map(({ centre }) => centre));
  return whole.map((choice, i) => ({ choice, rank: places[i], relative: Math.exp(products[i].centre - best) }))
    .sort((a, b) => a.rank - b.rank || b.relative - a.relative || (a.choice < b.choice ? -1 : 1));
}
