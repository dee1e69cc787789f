const atLoad = process.env.GREETING;

export async function handler() {
  const { GREETING, EMPTY, NOT_THERE, ODD } = process.env;
  return { greeting: GREETING, atLoad, empty: EMPTY, missing: NOT_THERE ?? null, odd: ODD };
}
