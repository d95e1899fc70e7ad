// The official Anthropic library against the server.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Server, all, load, until } from './server.mjs';

const { default: Anthropic } = load('@anthropic-ai/sdk');
const Ajv = load('ajv').default;

const weather = {
  name: 'get_weather',
  description: 'Get the weather for a city',
  input_schema: {
    type: 'object',
    properties: { city: { type: 'string' }, unit: { type: 'string', enum: ['celsius', 'fahrenheit'] } },
    required: ['city'],
  },
};
const greedy = { model: 'claude-test', max_tokens: 500, temperature: 0, thinking: { type: 'disabled' } };
const user = (content) => ({ role: 'user', content });

let server;
let client;
before(async () => {
  server = await Server.start();
  client = new Anthropic({ baseURL: server.url, apiKey: 'none', maxRetries: 0 });
});
after(async () => assert.equal(await server.stop(), 0));

test('models are listed', async () => {
  const models = await all(client.models.list());
  assert.equal(models.length, 1);
  assert.equal(models[0].type, 'model');
});

test('a question is answered', async () => {
  const answer = await client.messages.create({ ...greedy, messages: [user('What is 27 + 48?')] });
  assert.equal(answer.model, 'claude-test');
  assert.deepEqual(answer.content, [{ type: 'text', text: '27 + 48 = 75' }]);
  assert.equal(answer.stop_reason, 'end_turn');
});

test('a stream says the same', async () => {
  const stream = client.messages.stream({ ...greedy, messages: [user('What is 27 + 48?')] });
  const types = [];
  for await (const event of stream) types.push(event.type);
  assert.equal(types[0], 'message_start');
  assert.equal(types.at(-1), 'message_stop');
  const answer = await stream.finalMessage();
  assert.deepEqual(answer.content[0].text, '27 + 48 = 75');
  assert.ok(answer.usage.input_tokens + answer.usage.cache_read_input_tokens > 10);
  assert.ok(answer.usage.output_tokens > 5);
});

test('thinking is a block of its own', async () => {
  const request = {
    model: 'claude-test',
    max_tokens: 500,
    temperature: 0,
    thinking: { type: 'enabled', budget_tokens: 1024 },
    output_config: { effort: 'low' },
    messages: [user('What is 345 + 278?')],
  };
  const whole = await client.messages.create(request);
  assert.deepEqual(whole.content.map((block) => block.type), ['thinking', 'text']);
  assert.match(whole.content[0].thinking, /623/);
  const streamed = await client.messages.stream(request).finalMessage();
  assert.deepEqual(streamed.content, whole.content);
});

test('a tool is called and its result used', async () => {
  const request = { ...greedy, tools: [weather], system: [{ type: 'text', text: 'You are a helpful assistant.' }] };
  const messages = [user('What is the weather in Oslo?')];
  const first = await client.messages.stream({ ...request, messages }).finalMessage();
  assert.equal(first.stop_reason, 'tool_use');
  const call = first.content.find((block) => block.type === 'tool_use');
  assert.deepEqual(call.input, { city: 'Oslo' });
  messages.push({ role: 'assistant', content: first.content }, {
    role: 'user',
    content: [
      { type: 'tool_result', tool_use_id: call.id, content: '{"temperature": -3, "condition": "snowy"}' },
    ],
  });
  const second = await client.messages.create({ ...request, messages });
  assert.match(second.content[0].text, /snowy/);
});

test('several calls in one answer, and one if the client wants one', async () => {
  const request = { ...greedy, tools: [weather], messages: [user('What is the weather in Oslo and Rome? Check both.')] };
  const both = await client.messages.create(request);
  const calls = (answer) => answer.content.filter((block) => block.type === 'tool_use');
  assert.equal(calls(both).length, 2); // of what cities is beyond so small a model
  const one = await client.messages.create({
    ...request,
    tool_choice: { type: 'auto', disable_parallel_tool_use: true },
  });
  assert.equal(calls(one).length, 1);
});

test('a tool choice is obeyed', async () => {
  const request = { ...greedy, tools: [weather], messages: [user('Hello!')] };
  for (const choice of [{ type: 'any' }, { type: 'tool', name: 'get_weather' }]) {
    const answer = await client.messages.create({ ...request, tool_choice: choice });
    const call = answer.content.find((block) => block.type === 'tool_use');
    assert.equal(call.name, 'get_weather');
    assert.ok(new Ajv().validate(weather.input_schema, call.input));
  }
});

test('an answer follows a schema', async () => {
  const schema = {
    type: 'object',
    properties: { city: { type: 'string', maxLength: 20 }, capital: { type: 'boolean' } },
    required: ['city', 'capital'],
    additionalProperties: false,
  };
  const answer = await client.messages.create({
    ...greedy,
    temperature: 1,
    messages: [user('Give me a city in JSON.')],
    output_config: { format: { type: 'json_schema', schema } },
  });
  assert.ok(new Ajv().validate(schema, JSON.parse(answer.content[0].text)));
});

test('an answer is continued, and ends at a stop sequence or the limit', async () => {
  const begun = await client.messages.create({
    ...greedy,
    messages: [user('What is 27 + 48?'), { role: 'assistant', content: '27 + 48 =' }],
  });
  assert.match(begun.content[0].text, /75/);
  const stopped = await client.messages.create({
    ...greedy,
    messages: [user('What is 27 + 48?')],
    stop_sequences: ['='],
  });
  assert.equal(stopped.stop_reason, 'stop_sequence');
  assert.equal(stopped.stop_sequence, '=');
  const cut = await client.messages.create({ ...greedy, max_tokens: 3, messages: [user('What is 27 + 48?')] });
  assert.equal(cut.stop_reason, 'max_tokens');
});

test('tokens are counted', async () => {
  const request = { model: 'claude-test', messages: [user('What is 27 + 48?')] };
  const count = await client.messages.countTokens({ ...request, thinking: { type: 'disabled' } });
  const answer = await client.messages.create({ ...greedy, ...request });
  const { usage } = answer;
  assert.equal(count.input_tokens, usage.input_tokens + usage.cache_read_input_tokens);
});

test('mistakes are named', async () => {
  const bad = (body) => client.messages.create({ ...greedy, messages: [user('Hi')], ...body });
  await assert.rejects(bad({ temperature: 'hot' }), (error) => {
    assert.equal(error.status, 400);
    assert.equal(error.error.error.type, 'invalid_request_error');
    assert.match(error.message, /temperature/);
    return true;
  });
  await assert.rejects(bad({ messages: [user('word '.repeat(200000))] }), /prompt is too long: \d+ tokens > \d+ maximum/);
  await assert.rejects(bad({ messages: [user([{ type: 'tool_result' }])] }), /tool_use_id/);
});

test('a client that leaves stops the work', async () => {
  const stream = client.messages.stream({ ...greedy, temperature: 1, messages: [user('Tell me a story.')] });
  await new Promise((resolve) => stream.once('text', resolve));
  stream.abort();
  await assert.rejects(stream.done(), Anthropic.APIUserAbortError);
  await until(async () => (await server.metric('fathom_requests_running')) === 0, 'the request to end');
});
