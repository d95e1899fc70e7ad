// The official OpenAI library against the server: chat completions, completions, responses.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Server, all, load, until } from './server.mjs';

const { default: OpenAI } = load('openai');
const Ajv = load('ajv').default;

const weather = {
  name: 'get_weather',
  description: 'Get the weather for a city',
  parameters: {
    type: 'object',
    properties: { city: { type: 'string' }, unit: { type: 'string', enum: ['celsius', 'fahrenheit'] } },
    required: ['city'],
  },
};
const add = {
  name: 'add',
  description: 'Add two numbers',
  parameters: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] },
};
const asTools = (...functions) => functions.map((f) => ({ type: 'function', function: f }));
const person = {
  type: 'object',
  properties: { name: { type: 'string', maxLength: 20 }, age: { type: 'integer', minimum: 0, maximum: 120 } },
  required: ['name', 'age'],
  additionalProperties: false,
};
const greedy = { model: 'fathom', temperature: 0, thinking: { type: 'disabled' } };
const user = (content) => ({ role: 'user', content });

let server;
let client;
before(async () => {
  server = await Server.start();
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
});
after(async () => assert.equal(await server.stop(), 0));

test('models are listed', async () => {
  const models = await all(client.models.list());
  assert.equal(models.length, 1);
  assert.equal((await client.models.retrieve(models[0].id)).id, models[0].id);
});

test('a question is answered', async () => {
  const answer = await client.chat.completions.create({ ...greedy, messages: [user('What is 27 + 48?')] });
  assert.equal(answer.model, 'fathom');
  assert.equal(answer.choices[0].message.content, '27 + 48 = 75');
  assert.equal(answer.choices[0].finish_reason, 'stop');
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
});

test('a stream says the same', async () => {
  const chunks = await all(
    await client.chat.completions.create({
      ...greedy,
      messages: [user('What is 27 + 48?')],
      stream: true,
      stream_options: { include_usage: true },
    }),
  );
  assert.equal(chunks.map((c) => c.choices[0]?.delta.content ?? '').join(''), '27 + 48 = 75');
  assert.equal(new Set(chunks.map((c) => c.id)).size, 1);
  assert.equal(chunks[0].choices[0].delta.role, 'assistant');
  assert.deepEqual(chunks.at(-1).choices, []);
  assert.ok(chunks.at(-1).usage.completion_tokens > 5);
});

test('the library assembles a stream', async () => {
  const stream = client.chat.completions.stream({
    ...greedy,
    messages: [user('What is the weather in Oslo?')],
    tools: asTools(weather),
  });
  const answer = await stream.finalChatCompletion();
  assert.equal(answer.choices[0].finish_reason, 'tool_calls');
  assert.deepEqual(JSON.parse(answer.choices[0].message.tool_calls[0].function.arguments), { city: 'Oslo' });
});

test('thinking comes apart from the answer', async () => {
  const answer = await client.chat.completions.create({
    model: 'fathom',
    temperature: 0,
    reasoning_effort: 'low',
    messages: [user('What is 345 + 278?')],
  });
  assert.match(answer.choices[0].message.reasoning_content, /623/);
  assert.equal(answer.choices[0].message.content, '345 + 278 = 623');
  assert.ok(answer.usage.completion_tokens_details.reasoning_tokens > 10);
});

test('a tool is called and its result used', async () => {
  const messages = [user('What is the weather in Oslo?')];
  const request = { ...greedy, tools: asTools(weather) };
  const first = await client.chat.completions.create({ ...request, messages });
  const { message } = first.choices[0];
  assert.equal(first.choices[0].finish_reason, 'tool_calls');
  assert.equal(message.tool_calls[0].function.name, 'get_weather');
  messages.push(message, {
    role: 'tool',
    tool_call_id: message.tool_calls[0].id,
    content: '{"temperature": -3, "condition": "snowy"}',
  });
  const second = await client.chat.completions.create({ ...request, messages });
  assert.match(second.choices[0].message.content, /snowy.*Oslo|Oslo.*snowy/);
  messages.push(second.choices[0].message, user('What is the weather in Paris?'));
  const third = await client.chat.completions.create({ ...request, messages });
  assert.equal(JSON.parse(third.choices[0].message.tool_calls[0].function.arguments).city, 'Paris');
});

test('several calls in one answer, and one if the client wants one', async () => {
  const request = {
    ...greedy,
    messages: [user('What is the weather in Oslo and Rome? Check both.')],
    tools: asTools(weather),
  };
  const both = await client.chat.completions.create(request);
  assert.equal(both.choices[0].message.tool_calls.length, 2); // of what cities is beyond so small a model
  const one = await client.chat.completions.create({ ...request, parallel_tool_calls: false });
  assert.equal(one.choices[0].message.tool_calls.length, 1);
});

test('a tool choice is obeyed', async () => {
  const request = { ...greedy, messages: [user('Hello!')], tools: asTools(weather, add), max_tokens: 200 };
  const none = await client.chat.completions.create({ ...request, tool_choice: 'none' });
  assert.equal(none.choices[0].message.tool_calls, undefined);
  const required = await client.chat.completions.create({ ...request, tool_choice: 'required' });
  assert.ok(['get_weather', 'add'].includes(required.choices[0].message.tool_calls[0].function.name));
  const named = await client.chat.completions.create({
    ...request,
    tool_choice: { type: 'function', function: { name: 'add' } },
  });
  const [call] = named.choices[0].message.tool_calls;
  assert.equal(call.function.name, 'add');
  assert.ok(new Ajv().validate(add.parameters, JSON.parse(call.function.arguments)));
});

test('an answer follows a schema', async () => {
  for (const thinking of [{ thinking: { type: 'disabled' } }, { reasoning_effort: 'low' }]) {
    const answer = await client.chat.completions.create({
      model: 'fathom',
      temperature: 1,
      seed: 5,
      ...thinking,
      max_tokens: 400,
      messages: [user('Give me a person in JSON.')],
      response_format: { type: 'json_schema', json_schema: { name: 'person', schema: person, strict: true } },
    });
    assert.equal(answer.choices[0].finish_reason, 'stop');
    assert.ok(new Ajv().validate(person, JSON.parse(answer.choices[0].message.content)));
  }
});

test('log-probabilities, several answers, seeds, stop strings and limits', async () => {
  const request = { model: 'fathom', thinking: { type: 'disabled' }, messages: [user('Tell me a story.')], seed: 7 };
  const answer = await client.chat.completions.create({
    ...request,
    max_tokens: 16,
    n: 2,
    logprobs: true,
    top_logprobs: 3,
  });
  assert.equal(answer.choices.length, 2);
  assert.notEqual(answer.choices[0].message.content, answer.choices[1].message.content);
  for (const choice of answer.choices) {
    assert.equal(choice.finish_reason, 'length');
    assert.equal(choice.logprobs.content.length, 16);
    assert.equal(choice.logprobs.content.map((t) => t.token).join(''), choice.message.content);
    assert.ok(choice.logprobs.content.every((t) => t.top_logprobs.length === 3 && t.logprob <= 0));
  }
  const again = await client.chat.completions.create({ ...request, max_tokens: 16 });
  assert.equal(again.choices[0].message.content, answer.choices[0].message.content);
  const stopped = await client.chat.completions.create({ ...request, temperature: 0, stop: ['.'] });
  assert.equal(stopped.choices[0].finish_reason, 'stop');
  assert.ok(!stopped.choices[0].message.content.includes('.'));
});

test('text is continued', async () => {
  const request = { model: 'fathom', prompt: 'Once upon a time', max_tokens: 12, temperature: 0 };
  const plain = await client.completions.create(request);
  assert.ok(plain.choices[0].text.length > 0);
  assert.equal(plain.usage.completion_tokens, 12);
  const echo = await client.completions.create({ ...request, echo: true, logprobs: 2 });
  assert.equal(echo.choices[0].text, `Once upon a time${plain.choices[0].text}`);
  // The first token begins every document and is not part of the text.
  assert.equal(echo.choices[0].logprobs.tokens.slice(1).join(''), echo.choices[0].text);
  const chunks = await all(await client.completions.create({ ...request, stream: true }));
  assert.equal(chunks.map((c) => c.choices[0]?.text ?? '').join(''), plain.choices[0].text);
});

const offMode = { model: 'fathom', temperature: 0, reasoning: { effort: 'none' } };

test('responses: text, thinking, a stream', async () => {
  const answer = await client.responses.create({ ...offMode, input: 'What is 27 + 48?' });
  assert.equal(answer.status, 'completed');
  assert.equal(answer.output_text, '27 + 48 = 75');
  const thinking = await client.responses.create({
    model: 'fathom',
    temperature: 0,
    reasoning: { effort: 'low' },
    input: [{ role: 'user', content: [{ type: 'input_text', text: 'What is 345 + 278?' }] }],
  });
  assert.deepEqual(thinking.output.map((item) => item.type), ['reasoning', 'message']);
  assert.match(thinking.output[0].summary[0].text, /623/);
  assert.ok(thinking.usage.output_tokens_details.reasoning_tokens > 10);
  const stream = client.responses.stream({ ...offMode, input: 'What is 27 + 48?' });
  const types = [];
  let n = 0;
  for await (const event of stream) {
    assert.equal(event.sequence_number, n++);
    types.push(event.type);
  }
  assert.equal(types[0], 'response.created');
  assert.equal(types.at(-1), 'response.completed');
  assert.equal((await stream.finalResponse()).output_text, '27 + 48 = 75');
});

test('responses: a tool is called and its result used', async () => {
  const request = {
    ...offMode,
    instructions: 'You are a helpful assistant.',
    tools: [{ type: 'function', strict: false, ...weather }, { type: 'web_search' }],
  };
  const input = [{ role: 'user', content: 'What is the weather in Oslo?' }];
  const first = await client.responses.create({ ...request, input });
  const call = first.output.find((item) => item.type === 'function_call');
  assert.deepEqual(JSON.parse(call.arguments), { city: 'Oslo' });
  input.push(...first.output, {
    type: 'function_call_output',
    call_id: call.call_id,
    output: '{"temperature": -3, "condition": "snowy"}',
  });
  const second = await client.responses.create({ ...request, input });
  assert.match(second.output_text, /snowy/);
});

test('responses: an answer follows a schema', async () => {
  const answer = await client.responses.create({
    ...offMode,
    temperature: 1,
    max_output_tokens: 300,
    input: 'Give me a person in JSON.',
    text: { format: { type: 'json_schema', name: 'person', schema: person, strict: true } },
  });
  assert.ok(new Ajv().validate(person, JSON.parse(answer.output_text)));
});

test('responses: an answer cut off says so', async () => {
  const answer = await client.responses.create({ ...offMode, input: 'Tell me a story.', max_output_tokens: 5 });
  assert.equal(answer.status, 'incomplete');
  assert.equal(answer.incomplete_details.reason, 'max_output_tokens');
});

test('mistakes are named', async () => {
  const bad = (body) => client.chat.completions.create({ ...greedy, messages: [user('Hi')], ...body });
  await assert.rejects(bad({ temperature: 'hot' }), { status: 400, param: 'temperature' });
  await assert.rejects(bad({ messages: [{ role: 'clown', content: 'x' }] }), /messages\[0\]\.role/);
  await assert.rejects(bad({ messages: [user('word '.repeat(200000))] }), { code: 'context_length_exceeded' });
  await assert.rejects(
    bad({ response_format: { type: 'json_schema', json_schema: { name: 'x', schema: { multipleOf: 3 } } } }),
    /multipleOf/,
  );
  await assert.rejects(client.responses.create({ ...offMode, input: 'Hi', previous_response_id: 'resp_1' }), {
    status: 400,
  });
});

test('a client that leaves stops the work', async () => {
  const abort = new AbortController();
  const stream = await client.chat.completions.create(
    { model: 'fathom', messages: [user('Tell me a story.')], stream: true, logit_bias: { 1: -100 } },
    { signal: abort.signal },
  );
  for await (const chunk of stream) {
    if (chunk.choices[0].delta.content || chunk.choices[0].delta.reasoning_content) break;
  }
  abort.abort();
  await until(async () => (await server.metric('fathom_requests_running')) === 0, 'the request to end');
});
