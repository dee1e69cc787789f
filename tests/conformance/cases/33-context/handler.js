export async function handler(event, context) {
  const left = context.deadlineMs - Date.now();
  const fields = ['requestId', 'functionName', 'namespace', 'version', 'deadlineMs', 'log'];
  return {
    requestId: context.requestId,
    functionName: context.functionName,
    namespace: context.namespace,
    version: context.version,
    deadline: left > 0 && left <= 7000,
    whole: Number.isInteger(context.deadlineMs),
    all: fields.every((field) => field in context),
    item: context['requestId'] === context.requestId,
  };
}
