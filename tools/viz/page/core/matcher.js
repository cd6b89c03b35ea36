// Turns the query of a search box into a function that tests a text.

/**
 * @param {string} query plain words, all of which must occur; or /expression/
 * @returns {((candidate: string) => boolean) | string} or what is wrong with the query
 */
export function matcher(query) {
  const text = query.trim(), expression = /^\/(.+?)\/?$/s.exec(text);
  if (!expression) {
    const words = text.toLowerCase().split(/\s+/);
    return (candidate) => words.every((word) => candidate.toLowerCase().includes(word));
  }
  try {
    const pattern = new RegExp(expression[1], "i");
    return (candidate) => pattern.test(candidate);
  } catch (error) {
    return error.message;
  }
}

/** The same for a box that is being typed into: an incomplete expression matches everything. */
export function lenientMatcher(query) {
  const found = matcher(query);
  return typeof found === "string" ? () => true : found;
}
