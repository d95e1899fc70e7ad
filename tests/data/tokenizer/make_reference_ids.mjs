// Writes reference_ids.jsonl: texts and their ids by Hugging Face's `tokenizers` (npm, 0.23.2) with bundled.json.
//   npm install --no-save tokenizers@0.23.2 && node make_reference_ids.mjs > reference_ids.jsonl
import { Tokenizer } from 'tokenizers';

let state = 20240817;
const random = (n) => {
  state = (state * 1103515245 + 12345) % 2147483648;
  return Math.floor((state / 2147483648) * n);
};
const pick = (list) => list[random(list.length)];

const pools = [
  [...' \t\n\r'], [...'abcxyzABC'], [...'0123456789'], [...'!"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~'],
  [...'\u4e2d\u6587\u4e00\u9fa5\u9fa6\u3005\u3007\u4e8c'], [...'\u3072\u30ab\u30fb\u30a0\u30fc'],
  [...'\u00e9\u00fc\u00df\u00f1'], [...'\u0301\u05b0\u0e31\u20dd'], [...'\u00b2\u00bd\u2167\u2460\u0663'],
  [...'\u201c\u201d\u2014\u2026\u3001\uff0c\uff01'], [...'\u20ac\u2211\u221a\u27e8'],
  ['\u{1F600}', '\u{1F44D}\u{1F3FD}', '\u200d'], [...'\u00a0\u3000\u2003\u2028\u1680\u0085'],
  [...'\u0000\u0001\u001c\u007f\u200b\ufeff\u00ad'], [...'\ud55c\uad6d\uc5b4'], [...'\u043f\u0440\u0438'],
  ['<think>', '</think>', '<\uff5cUser\uff5c>', '\uff5cDSML\uff5c', '<\uff5cend\u2581of\u2581sentence\uff5c>',
   '<\uff5c', '\uff5c>', '<', '</', '<\uff5cUser', 'think>'],
  [' the', ' and', 'Once upon a time', 'return', "don't", " I'm", '\r\n', '\n\n', '    ', '{"name": "get_weather"}'],
];

const tokenizer = Tokenizer.fromFile(new URL('bundled.json', import.meta.url).pathname);
const ascii = (s) => s.replace(/[\u007f-\uffff]/g, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
for (let i = 0; i < 400; ++i) {
  let text = '';
  let pool = pick(pools);
  for (let n = 1 + random(16); n > 0; --n) {
    if (random(3) === 0) pool = pick(pools);
    text += pick(pool);
  }
  const encoded = await tokenizer.encode(text, null, { addSpecialTokens: false });
  console.log(ascii(JSON.stringify({ text, ids: encoded.getIds() })));
}
