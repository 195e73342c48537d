// The page of `litebert serve`: a playground, the model drawn, training runs, and the API. No library, no build step.
// A view is a function of the address after #, so that every view has a link; texts are set as text, never as HTML.
"use strict";

const state = { models: [], indexes: [] };
const $ = (id) => document.getElementById(id);

/** An element with attributes and children; strings become text. */
function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "style") Object.assign(node.style, value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

function svg(name, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children.flat(Infinity));
  return node;
}

async function api(path, body) {
  const headers = {};
  const key = sessionStorage.getItem("litebert-key");
  if (key) headers.authorization = `Bearer ${key}`;
  if (body) headers["content-type"] = "application/json";
  const answer = await fetch(path, body ? { method: "POST", headers, body: JSON.stringify(body) } : { headers });
  const content = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(content.error ? content.error.message : `the server answered ${answer.status}`);
  return content;
}

const percent = (share) => `${(100 * share).toFixed(1)} %`;
const count = (number) => Number(number).toLocaleString("en");
const lines = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);
const heat = (share, name = "heat") => `rgba(var(--${name}), ${Math.max(0, Math.min(1, share)).toFixed(3)})`;
const COLOURS = ["#8ecae6", "#f6bd60", "#b5e48c", "#f28482", "#cdb4db", "#90dbf4", "#ffd6a5", "#a3b18a", "#e5989b", "#9bf6ff"];
const colour = (number) => COLOURS[number % COLOURS.length];

function bars(entries) {
  return el("div", { role: "list" }, entries.map(([name, share]) => el("div", { class: "bar", role: "listitem" },
    el("span", {}, name),
    el("span", { class: "track", "aria-hidden": "true" }, el("span", { class: "fill", style: { display: "block", width: `${100 * share}%` } })),
    el("span", { class: "number" }, percent(share)))));
}

function cutNote(found) {
  const cut = found.truncated === true || (Array.isArray(found.truncated) && found.truncated.length > 0);
  return cut ? el("p", { class: "bad" }, "A text was longer than the model reads: only its beginning counts.") : null;
}

// --- the playground ---------------------------------------------------------------------------------------------------

const EXAMPLES = {
  en: {
    similarity: { texts: "a cat sleeps on the sofa\nthe kitten is asleep\na man plays the guitar\nsomeone makes music\nprices rose sharply in May" },
    search: { query: "how do I get my money back?", texts: "Refunds are paid within ten days.\nOur office is closed on Sundays.\nTo change your password, open the settings.\nParcels are sent by train." },
    classify: { text: "what a wonderful film\nI was bored to death" },
    tag: { text: "Anna flew from Paris to Berlin in May ." },
    answer: { question: "Where does she live?", context: "My sister left Lyon two years ago. She lives in a small house near Lisbon and works at the harbour." },
    choose: { passage: "He took his umbrella because the sky was dark.", question: "What did he expect?", options: "rain\na letter\nvisitors" },
    "fill-mask": { text: "the [MASK] of the house was open ." },
    order: { first: "He got up early.", second: "Then he went to work." },
    predict: { text: "a fine small camera" },
    tokens: { text: "Unbelievably, tokenization splits rare words." },
  },
  ko: {
    similarity: { texts: "오늘 날씨가 정말 좋아요\n날씨가 참 맑네요\n저는 기차로 출근합니다" },
    search: { query: "환불은 언제 되나요?", texts: "환불은 열흘 안에 처리됩니다.\n일요일에는 쉽니다.\n소포는 기차로 보냅니다." },
    classify: { text: "정말 재미있는 영화\n지루해서 혼났다" },
    tag: { text: "안나는 5월에 파리에서 베를린으로 갔다 ." },
    answer: { question: "그녀는 어디에 살아요?", context: "언니는 2년 전에 부산을 떠났다. 지금은 제주도의 작은 집에 살면서 항구에서 일한다." },
    choose: { passage: "하늘이 어두워서 그는 우산을 가져갔다.", question: "그는 무엇을 예상했나요?", options: "비\n편지\n손님" },
    "fill-mask": { text: "오늘 [MASK] 정말 좋아요" },
    order: { first: "그는 아침 일찍 일어났다.", second: "그리고 회사에 갔다." },
    predict: { text: "작지만 좋은 카메라" },
    tokens: { text: "한국어를 공부합니다" },
  },
  zh: {
    similarity: { texts: "今天天气很好\n天气真不错\n我坐火车上班" },
    search: { query: "什么时候退款？", texts: "退款在十天内完成。\n星期天我们休息。\n包裹用火车寄送。" },
    classify: { text: "这部电影真好看\n太无聊了" },
    tag: { text: "安娜 五月 从 巴黎 飞 到 柏林 。" },
    answer: { question: "她住在哪里？", context: "我姐姐两年前离开了上海。她现在住在厦门的一间小房子里，在港口工作。" },
    choose: { passage: "天色很暗，所以他带了雨伞。", question: "他认为会怎么样？", options: "会下雨\n会收到信\n会来客人" },
    "fill-mask": { text: "今天天气很[MASK]" },
    order: { first: "他很早就起床了。", second: "然后他去上班。" },
    predict: { text: "一台不错的小相机" },
    tokens: { text: "我喜欢学习中文" },
  },
};
const LANGUAGES = { en: "English", ko: "한국어", zh: "中文" };

/** What can be tried: fields of a form (name, label, rows), and how the answer is shown. */
const TRIES = {
  similarity: {
    label: "Similarity", ability: "embed", fields: [["texts", "Texts, one a line", 6]],
    run: (f, model) => api("/v1/similarity", { model, texts: lines(f.texts) }),
    show: (found, f) => {
      const texts = lines(f.texts);
      return [el("table", { class: "heat" }, el("caption", { class: "soft" }, "Cosines of vectors: 1 is the same direction."),
        el("thead", {}, el("tr", {}, el("td"), texts.map((text) => el("th", { scope: "col" }, text)))),
        el("tbody", {}, found.similarity.map((row, i) => el("tr", {}, el("th", { scope: "row" }, texts[i]),
          row.map((value) => el("td", { style: { background: heat(value * 0.7) } }, value.toFixed(2)))))))];
    },
  },
  search: {
    label: "Search", ability: "embed", fields: [["query", "Question", 1], ["texts", "Texts to look through, one a line", 6]],
    choices: () => (state.indexes.length ? [["index", "Look in", [["", "the texts below"], ...state.indexes.map((one) => [one.id, `${one.id} (${count(one.passages)} passages)`])]]] : []),
    run: (f, model) => api("/v1/search", f.index ? { query: f.query, index: f.index } : { model, query: f.query, texts: lines(f.texts) }),
    show: (found) => [el("ol", { class: "results" }, found.results.map((one) => el("li", {}, one.text, " ",
      el("small", {}, `${one.score.toFixed(3)}${one.location ? ` · ${one.location}` : ""}`))))],
  },
  classify: {
    label: "Classify", ability: "classify", fields: [["text", "Texts, one a line", 3]], pair: true,
    run: (f, model) => api("/v1/classify", { model, input: lines(f.text), ...(f.pairs ? { pairs: lines(f.pairs) } : {}) }),
    show: (found, f) => found.results.map((one, i) => el("section", {}, el("h3", {}, lines(f.text)[i]),
      bars(Object.entries(one.probabilities).sort((a, b) => b[1] - a[1]).slice(0, 12)))),
  },
  tag: {
    label: "Tag", ability: "tag", fields: [["text", "Sentences, one a line", 3]],
    run: (f, model) => api("/v1/tag", { model, input: lines(f.text) }),
    show: (found) => {
      const names = [...new Set(found.results.flatMap((one) => one.tags).filter((tag) => tag !== "O").map((tag) => tag.replace(/^[BIESMLU]-/, "")))];
      return found.results.map((one) => el("p", {}, one.words.flatMap((word, i) => {
        const kind = one.tags[i].replace(/^[BIESMLU]-/, "");
        return one.tags[i] === "O" ? [`${word} `] : [el("span", { class: "tag", style: { borderColor: colour(names.indexOf(kind)) }, title: percent(one.probabilities[i]) }, word, el("small", {}, ` ${one.tags[i]}`)), " "];
      })));
    },
  },
  answer: {
    label: "Answer", ability: "answer", fields: [["question", "Question", 1], ["context", "Text that holds the answer", 6]],
    run: (f, model) => api("/v1/answer", { model, question: f.question, context: f.context }),
    show: (found, f) => {
      const one = found.results[0];
      if (!one.text) return [el("p", {}, "The text holds no answer.")];
      const letters = [...f.context]; // the server counts characters, not halves of them
      return [el("p", {}, letters.slice(0, one.begin).join(""), el("mark", {}, letters.slice(one.begin, one.end).join("")), letters.slice(one.end).join("")),
        bars([[one.text, one.probability]])];
    },
  },
  choose: {
    label: "Choose", ability: "choose", fields: [["passage", "Passage", 4], ["question", "Question", 1], ["options", "Options, one a line", 4]],
    run: (f, model) => api("/v1/choose", { model, passage: f.passage, question: f.question, options: lines(f.options) }),
    show: (found, f) => [bars(lines(f.options).map((option, i) => [option, found.results[0].probabilities[i]]))],
  },
  "fill-mask": {
    label: "Fill the gap", ability: "fill-mask", fields: [["text", "Text with one or more [MASK]", 3]],
    run: (f, model) => api("/v1/fill-mask", { model, input: f.text, top: 8 }),
    show: (found) => found.results[0].masks.map((guesses, i) => el("section", {}, el("h3", {}, `Gap ${i + 1}`),
      bars(guesses.map((guess) => [guess.text.replaceAll("▁", " ").trim() || "(a space)", guess.probability])))),
  },
  order: {
    label: "Order", ability: "order", fields: [["first", "A piece of text", 2], ["second", "Another one, from the same place", 2]],
    run: (f, model) => api("/v1/order", { model, first: f.first, second: f.second }),
    show: (found, f) => [bars([[`first: ${f.first}`, found.probability], [`first: ${f.second}`, 1 - found.probability]])],
  },
  predict: {
    label: "Score", ability: "predict", fields: [["text", "Texts, one a line", 3]], pair: true,
    able: (model) => model.task && ["regression", "similarity"].includes(model.task.kind),
    run: (f, model) => api("/v1/predict", { model, input: lines(f.text).map((text, i) => (f.pairs ? [text, lines(f.pairs)[i] || ""] : text)) }),
    show: (found, f) => [el("table", {}, found.results.map((one, i) => el("tr", {}, el("td", {}, lines(f.text)[i]), el("td", { class: "number" }, one.value.toFixed(3)))))],
  },
  tokens: {
    label: "Tokens", ability: "embed", fields: [["text", "Text", 3]],
    run: (f, model) => api("/v1/inspect", { model, input: f.text }),
    show: (found) => [el("p", { class: "tokens" }, found.tokens.map((token) => el("span", {}, token))),
      el("p", { class: "soft" }, `${found.tokens.length} tokens, as the model sees them`), showAnswers(found)],
  },
};

const isAble = (one, model) => model.abilities.includes(one.ability) && (!one.able || one.able(model));

/** After which pass the answer was there, for a classifier. */
function showAnswers(found) {
  if (!found.answers || !found.answers.length) return null;
  return el("section", {}, el("h3", {}, "What it says after each pass"),
    el("table", {}, el("tbody", {}, found.answers.map((one, i) => el("tr", {}, el("td", {}, `pass ${i + 1}`), el("td", {}, one.label),
      el("td", { class: "number" }, percent(one.probability)), el("td", {}, found.exit === i + 1 ? "the answer is given here" : ""))))));
}

function play(view, name, values) {
  const able = Object.entries(TRIES).filter(([, one]) => state.models.some((model) => isAble(one, model)));
  const chosen = able.some(([key]) => key === name) ? name : able[0][0];
  const one = TRIES[chosen];
  let model = state.models.find((candidate) => candidate.id === values.model);
  if (!model || !isAble(one, model)) model = state.models.find((candidate) => isAble(one, candidate));
  const languages = model.languages || ["en"];
  const isPair = one.pair && model.task && model.task.is_pair;
  const fields = isPair ? [...one.fields, ["pairs", "The second text of each, one a line", 3]] : one.fields;
  const start = EXAMPLES[languages[0]][chosen] || EXAMPLES.en[chosen] || {};
  const lang = languages.length === 1 ? languages[0] : null; // fonts and line breaks depend on it
  const results = el("div", { class: lang === "ko" ? "card whole-words" : "card", id: "results", "aria-live": "polite" }, el("p", { class: "soft" }, "The answer appears here."));
  const inputs = {};
  const choices = one.choices ? one.choices() : [];
  const form = el("form", { onsubmit: (event) => { event.preventDefault(); run(true); } },
    choices.map(([key, label, options]) => el("label", {}, label, (inputs[key] = el("select", {}, options.map(([value, text]) => el("option", { value, selected: values[key] === value }, text)))))),
    fields.map(([key, label, rows]) => el("label", {}, label, (inputs[key] = rows === 1
      ? el("input", { type: "text", name: key, lang, value: values[key] ?? start[key] ?? "" })
      : el("textarea", { name: key, rows, lang }, values[key] ?? start[key] ?? "")))),
    el("div", { class: "examples" }, "Examples: ", languages.filter((code) => (EXAMPLES[code] || {})[chosen]).map((code) => [el("button", { type: "button", lang: code, onclick: () => {
      for (const [key, text] of Object.entries(EXAMPLES[code][chosen])) if (inputs[key]) inputs[key].value = text;
      run(true);
    } }, LANGUAGES[code]), " "])),
    el("button", { class: "main", type: "submit" }, "Run"));
  let asked = 0; // an answer that comes after a newer question is not shown
  async function run(keepLink) {
    const given = Object.fromEntries(Object.entries(inputs).map(([key, input]) => [key, input.value]));
    if (keepLink) history.replaceState(null, "", link(["play", chosen], { model: model.id, ...given }));
    const begun = performance.now(), number = ++asked;
    results.setAttribute("aria-busy", "true");
    let shown;
    try {
      const found = await one.run(given, model.id);
      const took = performance.now() - begun;
      shown = [cutNote(found), ...one.show(found, given), el("p", { class: "soft" }, `${found.model}, ${took.toFixed(0)} ms`)].filter(Boolean);
    } catch (error) {
      shown = [el("p", { class: "bad", role: "alert" }, error.message)];
    }
    if (number !== asked) return;
    results.replaceChildren(...shown);
    results.setAttribute("aria-busy", "false");
  }
  view.append(el("nav", { class: "tabs", "aria-label": "What to try" }, able.map(([key, other]) => el("a", { href: link(["play", key], { model: model.id }), "aria-current": key === chosen ? "page" : null }, other.label))),
    el("div", { class: "two" }, form, el("div", {}, results)));
  $("model").value = model.id;
  if (Object.values(inputs).some((input) => input.value)) run(false);
}

// --- the model --------------------------------------------------------------------------------------------------------

const PARTS = { words: "word table", positions: "positions and segments", projection: "projection E → H", attention: "attention", "feed-forward": "feed-forward", pooler: "pooler" };

async function showModel(view, _, values) {
  const model = state.models.find((one) => one.id === values.model) || state.models[0];
  $("model").value = model.id;
  const shape = (await api(`/v1/models/${encodeURIComponent(model.id)}`)).architecture;
  const config = shape.config;
  const sum = (parts) => Object.values(parts).reduce((a, b) => a + b, 0);
  const ours = sum(shape.parameters), berts = sum(shape.bert_parameters);
  const isFactorized = config.embedding_size !== config.hidden_size;
  view.append(el("h2", {}, model.id), el("p", {}, `${config.family === "albert" ? "ALBERT" : "BERT"}, ${count(ours)} parameters; it can: ${model.abilities.join(", ")}.`));
  const drawing = el("div", { class: "card" },
    el("div", { class: "layer", style: { background: "#dfe3e8" } }, el("span", {}, `words: ${count(config.vocab_size)} × ${config.embedding_size}`), el("span", {}, count(shape.parameters.words))),
    isFactorized ? [el("div", { class: "flow" }, "↓"), el("div", { class: "layer", style: { background: "#dfe3e8" } }, el("span", {}, `projection: ${config.embedding_size} → ${config.hidden_size}`), el("span", {}, count(shape.parameters.projection)))] : null,
    shape.layers.map(([attention, feedForward], i) => [el("div", { class: "flow" }, "↓"), el("div", { class: "layer", style: { background: `linear-gradient(90deg, ${colour(attention)} 50%, ${colour(feedForward)} 50%)` } },
      el("span", {}, `layer ${i + 1}: attention block ${attention + 1}`), el("span", {}, `feed-forward block ${feedForward + 1}`))]));
  const used = new Set(shape.layers.map(([attention, feedForward]) => `${attention},${feedForward}`)).size;
  view.append(el("div", { class: "two" },
    el("section", {}, el("h3", {}, "From words to states"), drawing, el("p", { class: "soft" }, `${shape.layers.length} layers run ${used} ${used === 1 ? "block" : "different blocks"}: the same colour means the same weights.`)),
    el("section", {}, el("h3", {}, "Parameters, beside a BERT of this shape"), el("div", { class: "card" }, el("table", {},
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "part"), el("th", { scope: "col" }, model.id), el("th", { scope: "col" }, "BERT"))),
      el("tbody", {}, Object.entries(PARTS).map(([key, name]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", { class: "number" }, count(shape.parameters[key])), el("td", { class: "number" }, count(shape.bert_parameters[key])))),
        el("tr", {}, el("th", { scope: "row" }, "all"), el("td", { class: "number" }, count(ours)), el("td", { class: "number" }, count(berts))))),
      bars([[model.id, ours / Math.max(ours, berts)], ["BERT", berts / Math.max(ours, berts)]])))));

  const input = el("input", { type: "text", value: values.text || EXAMPLES[(model.languages || ["en"])[0]].tokens.text });
  const layer = el("select", { "aria-label": "Layer" }, shape.layers.map((_, i) => el("option", { value: i, selected: Number(values.layer) === i }, `layer ${i + 1}`)));
  const head = el("select", { "aria-label": "Head" }, Array.from({ length: config.num_heads }, (_, i) => el("option", { value: i, selected: Number(values.head) === i }, `head ${i + 1}`)));
  const charts = el("div", { class: "two" });
  const map = el("div", { class: "card", id: "attention" });
  let found = null;
  const draw = () => {
    history.replaceState(null, "", link(["model"], { model: model.id, text: input.value, layer: layer.value, head: head.value }));
    if (!found) return;
    const rows = found.attention[Number(layer.value)][Number(head.value)];
    map.replaceChildren(el("table", { class: "heat tiny" }, el("caption", { class: "soft" }, "How much of a row’s token comes from each column’s"),
      el("thead", {}, el("tr", {}, el("td"), found.tokens.map((token) => el("th", { scope: "col" }, token)))),
      el("tbody", {}, rows.map((row, i) => el("tr", {}, el("th", { scope: "row" }, found.tokens[i]), row.map((value, j) => el("td", { style: { background: heat(value, "spot") }, title: `${found.tokens[i]} from ${found.tokens[j]}: ${percent(value)}` })))))));
  };
  const look = async () => {
    try {
      found = await api("/v1/inspect", { model: model.id, input: input.value });
    } catch (error) {
      charts.replaceChildren(el("p", { class: "bad", role: "alert" }, error.message));
      return;
    }
    const points = (values) => values.map((value, i) => [i + 1, value]);
    charts.replaceChildren(
      el("figure", { class: "card" }, el("figcaption", {}, "Distance between what goes into a layer and what comes out"), chart([{ name: "distance", points: points(found.distances) }], "layer")),
      el("figure", { class: "card" }, el("figcaption", {}, "Cosine of the two"), chart([{ name: "cosine", points: points(found.cosines) }], "layer")));
    draw();
  };
  layer.addEventListener("change", draw);
  head.addEventListener("change", draw);
  view.append(el("h2", {}, "Inside, for a text of yours"), el("form", { onsubmit: (event) => { event.preventDefault(); look(); } }, el("label", {}, "Text", input), el("button", { class: "main", type: "submit" }, "Look")),
    el("p", {}, "The paper’s Figure 1 for this text: how far each layer moves the states of the tokens."), charts, el("h3", {}, "Attention"), el("p", {}, layer, " ", head), map);
  await look();
}

/** A line chart of named series of points [x, y]. */
function chart(series, xName) {
  const [width, height, left, bottom] = [460, 230, 52, 34];
  const all = series.flatMap((one) => one.points).filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y));
  if (!all.length) return el("p", { class: "soft" }, "no values yet");
  const range = (values) => { const low = Math.min(...values), high = Math.max(...values); return low === high ? [low - 0.5, high + 0.5] : [low, high]; };
  const [x0, x1] = range(all.map(([x]) => x)), [y0, y1] = range(all.map(([, y]) => y));
  const px = (x) => left + ((x - x0) / (x1 - x0)) * (width - left - 12), py = (y) => 10 + ((y1 - y) / (y1 - y0)) * (height - bottom - 10);
  const ticks = [0, 0.5, 1];
  const short = (value) => (Math.abs(value) >= 10000 ? `${Math.round(value / 1000)}k` : value && Math.abs(value) < 0.001 ? value.toExponential(1) : Number(value.toPrecision(3)).toString());
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": series.map((one) => `${one.name}: from ${short(one.points[0][1])} to ${short(one.points.at(-1)[1])}`).join("; ") },
    ticks.map((t) => { const y = y0 + t * (y1 - y0), x = x0 + t * (x1 - x0); return [svg("line", { class: "axis", x1: left, x2: width - 12, y1: py(y), y2: py(y) }),
      svg("text", { x: left - 6, y: py(y) + 4, "text-anchor": "end" }, short(y)), svg("text", { x: px(x), y: height - 16, "text-anchor": "middle" }, short(x))]; }).flat(),
    svg("text", { x: (left + width) / 2, y: height - 2, "text-anchor": "middle" }, xName),
    series.map((one, i) => svg("polyline", { fill: "none", stroke: one.colour || "var(--accent)", "stroke-width": 2, points: one.points.map(([x, y]) => `${px(x).toFixed(1)},${py(y).toFixed(1)}`).join(" ") })));
}

// --- runs -------------------------------------------------------------------------------------------------------------

const LINES = ["#1a7fd4", "#d9622b", "#2a9d5c", "#b5489b", "#8a6d3b", "#5e60ce", "#c1121f", "#0a9396"];

function flatten(value, prefix = "") {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return { [prefix]: JSON.stringify(value) };
  return Object.assign({}, ...Object.entries(value).map(([key, inner]) => flatten(inner, prefix ? `${prefix}.${key}` : key)));
}

async function showRuns(view, _, values) {
  const [runs, labs] = (await Promise.all([api("/v1/runs"), api("/v1/labs")])).map((found) => found.data);
  view.append(el("h2", {}, "Training runs"));
  if (runs.length) await showCurves(view, runs, values);
  else view.append(el("p", {}, "There are no runs in the folder that this server watches (--runs)."));
  if (labs.length) await showLabs(view, labs, values);
}

async function showCurves(view, runs, values) {
  const chosen = new Set(values.runs ? values.runs.split(",").map(decodeURIComponent) : [runs[0].id]);
  const charts = el("div", { class: "two", id: "charts" }), differences = el("div");
  const list = el("fieldset", { class: "runs card" }, el("legend", {}, "Runs, the newest first"), runs.map((run) => el("label", {}, el("input", { type: "checkbox", checked: chosen.has(run.id), onchange: (event) => {
    if (event.target.checked) chosen.add(run.id); else chosen.delete(run.id);
    keep("runs", { runs: [...chosen].map(encodeURIComponent).join(",") });
    draw();
  } }), ` ${run.id} `, el("small", {}, `${run.kind}, ${new Date(1000 * run.changed).toLocaleString()}`))));
  const legend = el("p", { class: "legend" });
  view.append(list, legend, charts, differences);
  async function draw() {
    const read = (await Promise.all([...chosen].map((id) => api(`/v1/runs/${address(id)}`).catch(() => null)))).filter(Boolean);
    const series = {};
    read.forEach((run, i) => {
      for (const [rows, kind] of [[run.steps, "training"], [run.evaluations, "evaluation"]]) {
        for (const name of new Set(rows.flatMap(Object.keys))) {
          if (["step", "tokens", "seconds", "progress", "total"].includes(name)) continue;
          const points = rows.filter((row) => name in row && "step" in row).map((row) => [row.step, row[name]]);
          if (points.length > 1) (series[`${name} (${kind})`] ||= []).push({ name: run.id, points, colour: LINES[i % LINES.length] });
        }
      }
    });
    const rank = (name) => (name.startsWith("loss") ? 0 : name.includes("evaluation") ? 1 : 2);
    legend.replaceChildren(...read.map((run, i) => el("span", {}, el("i", { style: { background: LINES[i % LINES.length] } }), `${run.id}: ${run.state}, step ${count(run.last.step || 0)}`)));
    charts.replaceChildren(...Object.entries(series).sort(([a], [b]) => rank(a) - rank(b)).slice(0, 12).map(([name, curves]) => el("figure", { class: "card" }, el("figcaption", {}, name), chart(curves, "step"))));
    const configs = read.map((run) => flatten(run.config));
    const keys = [...new Set(configs.flatMap(Object.keys))].filter((key) => new Set(configs.map((config) => config[key])).size > 1);
    differences.replaceChildren(...(read.length > 1 ? [el("h3", {}, "Where their settings differ"), el("div", { class: "card" }, keys.length ? el("table", {},
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "setting"), read.map((run) => el("th", { scope: "col" }, run.id)))),
      el("tbody", {}, keys.slice(0, 60).map((key) => el("tr", {}, el("th", { scope: "row" }, key), configs.map((config) => el("td", {}, config[key] ?? "–")))))) : el("p", {}, "They do not."))] : []));
  }
  await draw();
  const timer = setInterval(() => { if (!document.hidden) draw(); }, 5000);
  leave = () => clearInterval(timer);
}

// --- grids of the lab --------------------------------------------------------------------------------------------------

const address = (name) => name.split("/").map(encodeURIComponent).join("/");

async function showLabs(view, labs, values) {
  const chosen = labs.find((lab) => lab.id === values.lab) || labs[0];
  const select = el("select", { id: "lab" }, labs.map((lab) => el("option", { value: lab.id, selected: lab === chosen }, lab.id)));
  const shown = el("div", { id: "tables" });
  const draw = async () => {
    try {
      const lab = await api(`/v1/labs/${address(select.value)}`);
      shown.replaceChildren(el("p", {}, el("small", {}, `finished ${new Date(1000 * lab.changed).toLocaleString()} · `),
        el("a", { href: lab.report, target: "_blank", rel: "noopener", onclick: (event) => saveReport(event, lab) }, "the whole report")),
        ...renderMarkdown(lab.table));
    } catch (error) {
      shown.replaceChildren(el("p", { class: "bad", role: "alert" }, error.message));
    }
  };
  select.addEventListener("change", () => { keep("runs", { lab: select.value }); draw(); });
  view.append(el("h2", {}, "Grids of the lab"), el("p", {}, el("label", {}, "Grid ", select)), shown);
  await draw();
}

/** A link cannot send the key, so that a report of a server that asks for one is saved as a file instead. */
async function saveReport(event, lab) {
  const key = sessionStorage.getItem("litebert-key");
  if (!key) return;
  event.preventDefault();
  const answer = await fetch(lab.report, { headers: { authorization: `Bearer ${key}` } });
  if (!answer.ok) { $("status").textContent = `the server answered ${answer.status}`; return; }
  const file = URL.createObjectURL(await answer.blob());
  el("a", { href: file, download: `${lab.id.replaceAll("/", "-")}.html` }).click();
  setTimeout(() => URL.revokeObjectURL(file), 10000);
}

/** Headings, paragraphs and pipe tables of Markdown; all else is text as it stands. Nothing is taken for HTML. */
function renderMarkdown(text) {
  const nodes = [];
  const rows = text.split(/\r?\n/);
  const isRule = (line) => line !== undefined && line.includes("|") && /^[\s|:-]+$/.test(line) && line.includes("-");
  for (let i = 0; i < rows.length; i++) {
    if (rows[i].includes("|") && isRule(rows[i + 1])) {
      const head = cellsOf(rows[i]);
      const sides = cellsOf(rows[i + 1]).map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "right") : null));
      const body = [];
      for (i += 2; i < rows.length && rows[i].includes("|"); i++) body.push(cellsOf(rows[i]));
      i -= 1;
      const side = (n) => (sides[n] ? { style: { textAlign: sides[n] } } : {});
      nodes.push(el("div", { class: "card", tabindex: "0", role: "region", "aria-label": "Table" }, el("table", { class: "lab" },
        el("thead", {}, el("tr", {}, head.map((cell, n) => el("th", { scope: "col", ...side(n) }, inline(cell))))),
        el("tbody", {}, body.map((row) => el("tr", {}, head.map((_, n) => el("td", side(n), inline(row[n] ?? "")))))))));
    } else if (/^#{1,6} /.test(rows[i])) nodes.push(el("h3", {}, inline(rows[i].replace(/^#+ /, "").trim())));
    else if (rows[i].trim()) nodes.push(el("p", {}, inline(rows[i].trim())));
  }
  return nodes;
}

/** The cells of a row; `\\|` is a bar inside of one. */
function cellsOf(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.replaceAll("\\|", "|").trim());
}

/** Bold text and code; what looks like a link or like HTML stays as it is written. */
const inline = (text) => text.split(/(\*\*[^*]+\*\*|`[^`]+`)/).filter(Boolean).map((part) =>
  (/^\*\*[^*]+\*\*$/.test(part) ? el("strong", {}, part.slice(2, -2)) : /^`[^`]+`$/.test(part) ? el("code", {}, part.slice(1, -1)) : part));

// --- the API ----------------------------------------------------------------------------------------------------------

async function showApi(view) {
  const schema = await api("/openapi.json");
  view.append(el("h2", {}, "API"), el("p", {}, "Errors are ", el("code", {}, '{"error": {"message", "type", "param", "code"}}'), ". Clients of OpenAI take ", el("code", {}, `${location.origin}/v1`), " as their base address. The schema is at ", el("a", { href: "/openapi.json" }, "/openapi.json"), "."));
  const samples = { "/v1/embeddings": { input: "a text" }, "/v1/similarity": { texts: ["a cat"], others: ["a kitten"] }, "/v1/search": { query: "lunch", texts: ["a bank", "a meal"] }, "/v1/rerank": { query: "lunch", documents: ["a bank", "a meal"] }, "/v2/rerank": { query: "lunch", documents: ["a bank", "a meal"], top_n: 1 }, "/rerank": { query: "lunch", texts: ["a bank", "a meal"] }, "/v1/classify": { input: "what a film" }, "/v1/tag": { input: "Anna went to Paris" }, "/v1/answer": { question: "Where?", context: "She lives in Rome." }, "/v1/choose": { passage: "…", question: "…", options: ["a", "b"] }, "/v1/predict": { input: "a text" }, "/v1/fill-mask": { input: "the [MASK] of the house" }, "/v1/order": { first: "…", second: "…" }, "/v1/inspect": { input: "a text" } };
  for (const [path, methods] of Object.entries(schema.paths)) {
    for (const [method, about] of Object.entries(methods)) {
      const body = samples[path];
      const command = body ? `curl ${location.origin}${path} -H 'content-type: application/json' -d '${JSON.stringify(body)}'` : `curl ${location.origin}${path}`;
      view.append(el("section", { class: "card", style: { margin: ".7rem 0" } }, el("h3", {}, `${method.toUpperCase()} ${path}`), el("p", {}, about.description || about.summary || ""), el("pre", { tabindex: "0" }, command)));
    }
  }
}

// --- the frame --------------------------------------------------------------------------------------------------------

const VIEWS = { play: ["Playground", play], model: ["Model", showModel], runs: ["Runs", showRuns], api: ["API", showApi] };
let leave = () => {};

function link(path, values = {}) {
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value)).toString();
  return `#/${path.join("/")}${query ? `?${query}` : ""}`;
}

/** Change some values of the link, and keep the others. */
function keep(path, values) {
  const now = Object.fromEntries(new URLSearchParams(location.hash.split("?")[1] || ""));
  history.replaceState(null, "", link([path], { ...now, ...values }));
}

async function show() {
  leave();
  leave = () => {};
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, inner] = path.split("/");
  const values = Object.fromEntries(new URLSearchParams(query || ""));
  const current = name in VIEWS ? name : "play";
  const model = values.model || $("model").value;
  $("nav").replaceChildren(...Object.entries(VIEWS).map(([key, [label]]) => el("a", { href: link([key], key === "play" || key === "model" ? { model } : {}), "aria-current": key === current ? "page" : null }, label)));
  const view = el("main", { id: "view", tabindex: "-1" });
  $("view").replaceWith(view);
  try {
    if (!state.models.length) await load();
    await VIEWS[current][1](view, inner, values.model ? values : { ...values, model });
    $("status").textContent = "";
  } catch (error) {
    view.replaceChildren(el("p", { class: "bad", role: "alert" }, error.message));
  }
}

async function load() {
  [state.models, state.indexes] = (await Promise.all([api("/v1/models"), api("/v1/indexes")])).map((found) => found.data);
  $("model").replaceChildren(...state.models.map((one) => el("option", { value: one.id }, one.id)));
}

window.addEventListener("hashchange", show);
window.addEventListener("DOMContentLoaded", () => {
  $("key").value = sessionStorage.getItem("litebert-key") || "";
  $("key").addEventListener("change", () => { sessionStorage.setItem("litebert-key", $("key").value); state.models = []; show(); });
  $("model").addEventListener("change", () => {
    const path = location.hash.replace(/^#\/?/, "").split("?")[0].split("/").filter(Boolean);
    location.hash = link(path.length ? path : ["play"], { model: $("model").value }).slice(1);
  });
  show();
});
