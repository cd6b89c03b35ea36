// Round numbers for the ticks of axes.

/** Returns about `count` multiples of 1, 2 or 5 times a power of ten in [low, high]. */
export function roundTicks(low, high, count = 6) {
  if (!(high > low)) return [low];
  return multiples(low, high, niceStep((high - low) / Math.max(1, count), [1, 2, 5, 10], 10));
}

/** Returns ticks that are round in bytes: multiples of 1, 2, 4, ... 512 times a power of 1024. */
export function byteTicks(low, high, count = 6) {
  if (!(high > low)) return [low];
  return multiples(low, high, niceStep((high - low) / Math.max(1, count), Array.from({ length: 11 }, (_, i) => 2 ** i), 1024));
}

/** Returns powers of ten in [low, high], and their multiples by 2 and 5 if there are few. */
export function logTicks(low, high) {
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high)), ticks = [];
  const every = Math.max(1, Math.ceil((last - first) / 8)), factors = last - first <= 3 ? [1, 2, 5] : [1];
  for (let power = first; power <= last; power += every) for (const factor of factors) ticks.push(factor * 10 ** power);
  const inside = ticks.filter((tick) => tick >= low * 0.999999 && tick <= high * 1.000001);
  return inside.length >= 2 ? inside : roundTicks(low, high, 4);
}

// Returns the first nice number that is at least `least`.
function niceStep(least, factors, base) {
  const power = base ** Math.floor(Math.log(least) / Math.log(base));
  return power * factors.find((factor) => factor * power >= least * 0.999999);
}

function multiples(low, high, step) {
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) ticks.push(i * step + 0); // + 0 avoids -0
  return ticks;
}
