export async function handler({ body, isBase64Encoded }) {
  return { body, isBase64Encoded };
}
