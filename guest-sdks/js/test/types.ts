// Checked, never run: what the types allow, and what they don't.
import type { CloudEventHandler, Context, Event, Handler, HttpHandler } from '../index.js';
import { call, cloudEvent } from '../testing.js';

interface Greeting {
  message: string;
}

const json: HttpHandler = (event): Greeting => ({ message: String(event.query.name ?? 'world') });
const text: HttpHandler = async (event, context) => {
  context.log.warn('low', { left: 3 });
  return `${event.method} ${context.requestId}`;
};
const full: HttpHandler = () => ({ statusCode: 201, headers: { 'set-cookie': ['a=1', 'b=2'], 'x-count': 3 }, body: new Uint8Array(2) });
const nothing: HttpHandler = () => {};
const stream: HttpHandler = async function* () {
  yield 'a piece';
};
const web: HttpHandler = () => new Response('text', { status: 202 });
const cron: CloudEventHandler<{ n: number }> = (event) => ({ doubled: (event.data?.n ?? 0) * 2 });
const both: Handler = (event: Event, context: Context) =>
  'specversion' in event ? event.type : context.functionName;

// @ts-expect-error a path is text
const wrongField: HttpHandler = (event) => event.path.get('x');
// @ts-expect-error there is no such field
const unknownField: HttpHandler = (_event, context) => context.requestID;

export async function uses(): Promise<void> {
  const answer = await call(json, { path: '/?name=Ada', json: { a: 1 }, headers: { 'x-a': 'b' } });
  const status: number = answer.status;
  const level: string | undefined = answer.logs[0]?.level;
  await call(cron, { event: cloudEvent({ type: 'cron', data: { n: 1 } }), context: { requestId: 'r1' } });
  void [status, level, text, full, nothing, stream, web, both, wrongField, unknownField];
}
