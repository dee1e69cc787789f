const inner = (amount) => amount.total.value;

export async function handler() {
  return inner({});
}
