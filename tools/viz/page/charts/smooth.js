// The exponential moving average that training curves are smoothed with. It starts from nothing, so it is divided by what
// it has weighed so far (the bias correction of Adam: Kingma and Ba, 2015, section 3).

/**
 * @param {(number|null)[]} values null and what is not finite is passed over
 * @param {number} weight of what was, 0 (none) up to below 1
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

/** True for the learning rate, however a program names it: it follows a schedule and has no noise for smoothing to remove. */
export function isSchedule(name) {
  return /(^|[^a-z])(lr|learning[ _-]?rate)([^a-z]|$)/i.test(name);
}
