// The exponential moving average that smooths training curves. It starts from zero, so it is divided by the sum of weights so
// far (the bias correction of Adam: Kingma and Ba, 2015, section 3).

/**
 * @param {(number|null)[]} values null and values that are not finite are skipped
 * @param {number} weight of earlier values: from 0 (none) to below 1
 */
export function smoothed(values, weight) {
  if (weight <= 0) return values;
  let sum = 0, weighed = 0;
  return values.map((value) => {
    if (value === null || !Number.isFinite(value)) return null;
    sum = weight * sum + (1 - weight) * value;
    weighed = weight * weighed + (1 - weight);
    return sum / weighed;
  });
}

/** Returns true for names of the learning rate, which follows a schedule and has no noise for smoothing to remove. */
export function isSchedule(name) {
  return /(^|[^a-z])(lr|learning[ _-]?rate)([^a-z]|$)/i.test(name);
}
