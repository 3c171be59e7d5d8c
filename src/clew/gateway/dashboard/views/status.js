// The page "Status": what runs, what waits, what went wrong. It is read again by itself.

import { call } from "../api.js";
import { h, icon } from "../dom.js";
import { counted, dayOf, duration, fullTime, nameOf, number, shortTime, size } from "../format.js";
import { addKeys } from "../keyboard.js";
import { openDialog } from "../parts/dialog.js";
import { whyButton } from "../parts/explain.js";
import { actionButton, dialogForm, field } from "../parts/form.js";
import { notify } from "../parts/notice.js";
import { pageHeader } from "../parts/page.js";
import { facts, panel, row, rows } from "../parts/panel.js";
import { readAgain } from "../parts/watch.js";

const DAY = 86_400_000;
const MOST = 50;
/** The background tasks of a gateway. @type {Record<string, string>} */
const TASKS = {
  replies: "Sending replies",
  jobs: "Running jobs",
  channels: "Channels",
  signs: "Typing signs",
  others: "Going on for gateways that died",
  tidying: "Tidying up",
};

/** @type {View} */
export function showStatus(root) {
  // One call serves several panels; each round asks once.
  /** @type {Promise<any>} */
  let report = Promise.resolve(null);
  const read = (/** @type {(report: any) => any} */ pick) => async () => pick(await report);

  const jobs = panel("Jobs", readJobs, drawJobs, {
    actions: h(
      "button",
      { type: "button", onclick: () => addJob(() => jobs.refresh()) },
      icon("plus"),
      "Add a job",
    ),
  });
  const outbox = panel("Replies that did not arrive", readOutbox, drawOutbox);
  const work = panel("At work", readWork, drawWork);
  const gateway = panel(
    "Gateway",
    read(({ version, gateway, config, errands }) => ({ version, gateway, config, errands })),
    drawGateway,
  );
  const store = panel(
    "Store",
    read(({ store, stats, findings, backed_up_at }) => ({ store, stats, findings, backed_up_at })),
    drawStore,
  );
  const channels = panel("Channels", readChannels, drawChannels);
  const events = panel("Last events", readEvents, drawEvents);
  const panels = [outbox, work, jobs, events, channels, gateway, store];
  const column = (/** @type {import("../parts/panel.js").Panel[]} */ list) =>
    h(
      "div",
      { class: "stack" },
      list.map((each) => each.element),
    );
  root.append(
    pageHeader("Status"),
    h(
      "div",
      { class: "page-body wide" },
      h(
        "div",
        { class: "columns" },
        column([outbox, work, jobs, events]),
        column([channels, gateway, store]),
      ),
    ),
  );

  async function refresh() {
    report = call("status");
    report.catch(() => {});
    await Promise.all(panels.map((each) => each.refresh()));
  }

  refresh();
  const stops = [
    readAgain(refresh),
    addKeys("Status", [["a", "Add a job", () => addJob(() => jobs.refresh())]]),
  ];
  return () => stops.forEach((stop) => stop());

  async function readWork() {
    const [{ leases, waiting, inbox, outbox }, { messages }] = await Promise.all([
      report,
      call("queue.list", { limit: MOST }),
    ]);
    const ids = leases.map((/** @type {any} */ each) => each.session).slice(0, MOST);
    const { names } = ids.length
      ? await call("sessions.names", { ids: ids.join(",") })
      : { names: [] };
    return { leases, waiting, inbox, outbox, messages, names };
  }

  async function readJobs() {
    const [{ jobs }, { cron }] = await Promise.all([call("cron.list"), report]);
    return { jobs, problems: cron?.problems ?? {} };
  }

  async function readChannels() {
    return (await report).channels;
  }
}

// --- what runs --------------------------------------------------------------------------------

/** @param {"up" | "down" | "off"} state */
function statePill(state) {
  const [kind, words] = {
    up: ["running", "works"],
    down: ["failed", "does not work"],
    off: ["", "off"],
  }[state] ?? ["", state];
  return h("span", { class: `pill ${kind}` }, words);
}

/** @param {any} data */
function drawGateway({ version, gateway, config, errands }) {
  return [
    facts([
      ["Version", version],
      gateway && [
        "Started",
        h("span", { title: fullTime(gateway.started_at) }, whenWords(gateway.started_at)),
      ],
      gateway && ["Process", String(gateway.pid)],
      config && ["Configuration", config.exists ? config.file : `${config.file} (not written yet)`],
    ]),
    errands?.length > 0 && h("h3", { class: "spaced" }, "Background tasks"),
    errands?.length > 0 &&
      h(
        "ul",
        { class: "tasks" },
        errands.map((/** @type {any} */ each) =>
          h("li", null, TASKS[each.name] ?? each.name, statePill(each.state), each.detail),
        ),
      ),
  ];
}

/** @param {any[]} channels */
function drawChannels(channels) {
  return rows(
    channels.map((each) =>
      row(
        [
          h("strong", null, each.name),
          h("span", { class: "faint" }, each.account),
          statePill(each.state),
        ],
        [each.last_at && `Last message ${shortTime(each.last_at)}. `, each.detail],
        whyButton(`where messages of ${each.name} go`, "explain.route", {
          channel: each.type ?? each.name,
          account: each.account,
        }),
      ),
    ),
    ["No channel is set up. On the machine of the gateway: ", h("code", null, "clew channels add")],
  );
}

/** @param {any} data */
function drawWork({ leases, waiting, messages, inbox, outbox, names }) {
  const named = new Map(names.map((/** @type {any} */ each) => [each.id, nameOf(each)]));
  return [
    facts([
      ["Turns that run", number(leases.length)],
      [
        "Approvals that wait",
        waiting > 0 ? h("a", { href: "/?state=waiting" }, number(waiting)) : "0",
      ],
      ["Messages in the queue", number((inbox.queued ?? 0) + (inbox.claimed ?? 0))],
      ["Replies on their way", number((outbox.pending ?? 0) + (outbox.sending ?? 0))],
      outbox.withheld > 0 && ["Replies withheld", number(outbox.withheld)],
    ]),
    leases.length > 0 &&
      rows(
        leases.map((/** @type {any} */ each) =>
          row(
            h("a", { href: `/s/${each.session}` }, named.get(each.session) ?? each.session),
            h("span", { title: each.holder }, each.status ?? "held"),
          ),
        ),
        "",
      ),
    messages.length > 0 && h("h3", { class: "spaced" }, "Queue"),
    messages.length > 0 &&
      rows(
        messages.map((/** @type {any} */ each) =>
          row(
            h("span", { class: "clip" }, each.text || "(a file)"),
            `${each.person} on ${each.channel}, ${shortTime(each.received_at)}, ${each.status}`,
            each.session && h("a", { class: "button", href: `/s/${each.session}` }, "Open"),
          ),
        ),
        "",
      ),
  ];
}

// --- replies ----------------------------------------------------------------------------------

async function readOutbox() {
  const lists = await Promise.all(
    ["uncertain", "failed"].map((state) => call("outbox.list", { state, limit: MOST })),
  );
  return lists.flatMap((each) => each.deliveries);
}

/** @param {any[]} deliveries @param {() => Promise<void>} refresh */
function drawOutbox(deliveries, refresh) {
  return rows(
    deliveries.map((each) => {
      const isOpen = each.status === "uncertain";
      return row(
        [
          h("span", { class: `pill ${isOpen ? "waiting" : "failed"}` }, each.status),
          h("span", { class: "clip" }, each.content),
        ],
        [
          `${each.channel}, ${shortTime(each.updated_at)}, ${counted(each.attempts, "attempt")}. `,
          each.error,
        ],
        isOpen &&
          actionButton(
            [icon("check"), "It has arrived"],
            async () => {
              await call("outbox.confirm", { id: each.id });
              notify("Marked as arrived.");
              await refresh();
            },
            { "data-key": `arrived-${each.id}` },
          ),
        actionButton(
          [icon("send"), "Send again"],
          async () => {
            await call("outbox.retry", { id: each.id });
            notify("It will be sent again.");
            await refresh();
          },
          { "data-key": `again-${each.id}` },
        ),
        each.key && whyButton("this delivery", "explain.send", { key: each.key }),
        each.session_id &&
          h(
            "a",
            { class: "button", href: `/s/${each.session_id}${each.seq ? `#m${each.seq}` : ""}` },
            "Open",
          ),
      );
    }),
    "Everything has arrived.",
  );
}

// --- jobs -------------------------------------------------------------------------------------

/** @param {any} data @param {() => Promise<void>} refresh */
function drawJobs({ jobs, problems }, refresh) {
  const left = Object.entries(problems).filter(
    ([name]) => !jobs.some((/** @type {any} */ each) => each.name === name),
  );
  return [
    left.map(([name, problem]) => h("p", { class: "bad" }, `${name}: ${problem}`)),
    rows(
      jobs.map((/** @type {any} */ job) =>
        row(
          [h("strong", null, job.name), h("code", null, job.schedule)],
          [
            h("span", { class: "clip" }, job.text),
            h(
              "div",
              null,
              `Next ${whenWords(job.due_at)}`,
              job.last_run_at && `, last ${shortTime(job.last_run_at)}`,
              job.deliver_to && `, to ${job.deliver_to}`,
            ),
            problems[job.name] && h("div", { class: "bad" }, problems[job.name]),
          ],
          actionButton(
            "Run now",
            async () => {
              const { session } = await call("cron.run", { name: job.name });
              notify(`${job.name} runs.${session ? "" : " It waits for its turn."}`);
              await refresh();
            },
            { "data-key": `run-${job.name}` },
          ),
          actionButton(
            [icon("trash"), "Remove"],
            async () => {
              await call("cron.remove", { name: job.name });
              await refresh();
              notify(`${job.name} is removed. Its sessions stay.`, {
                undo: async () => {
                  const { name, schedule, text, agent, session, deliver_to, timezone, memory } =
                    job;
                  await call("cron.add", {
                    ...{ name, schedule, text, agent, session, deliver_to, timezone, memory },
                  });
                  await refresh();
                },
              });
            },
            { "data-key": `remove-${job.name}` },
          ),
        ),
      ),
      "There is no job. A job asks the agent something on a schedule, such as every morning.",
    ),
  ];
}

/** @param {() => Promise<void>} added */
function addJob(added) {
  const name = h("input", { type: "text", required: true, maxlength: "64", autocomplete: "off" });
  const schedule = h("input", {
    type: "text",
    required: true,
    maxlength: "200",
    value: "0 8 * * *",
  });
  const text = h("textarea", { rows: "3", required: true });
  const session = h(
    "select",
    null,
    h("option", { value: "isolated" }, "A new session for each run"),
    h("option", { value: "fixed" }, "One session for all runs"),
  );
  const to = h("input", { type: "text", placeholder: "telegram:123456" });
  const memory = h("input", { type: "checkbox" });
  const form = dialogForm(
    "add-job",
    send,
    h(
      "div",
      { class: "pair" },
      field("Name", name, "Letters, digits, - and _"),
      field("When", schedule, "0 8 * * * (daily at 8:00), every 2h, @weekly"),
    ),
    field("What to ask the agent", text),
    h(
      "div",
      { class: "pair" },
      field("Session", session),
      field("Send the answer to", to, "Left empty: nowhere else"),
    ),
    h("label", { class: "check" }, memory, "Its runs may write memory"),
  );
  const dialog = openDialog("Add a job", form, {
    actions: [
      h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
      h("button", { class: "primary", form: "add-job" }, "Add"),
    ],
  });
  name.focus();

  async function send() {
    const job = await call("cron.add", {
      name: name.value,
      schedule: schedule.value,
      text: text.value,
      session: session.value,
      deliver_to: to.value.trim() || undefined,
      timezone: Intl.DateTimeFormat().resolvedOptions().timeZone,
      memory: memory.checked,
    });
    dialog.close();
    notify(`${job.name} is added. It runs next ${whenWords(job.due_at)}.`);
    await added();
  }
}

// --- store and events -------------------------------------------------------------------------

/** @param {any} data */
function drawStore({ store, stats, findings, backed_up_at }) {
  if (!stats) return h("p", { class: "faint" }, "Only the owner sees this.");
  const days = stats.oldest_at ? Math.max(1, (stats.newest_at - stats.oldest_at) / DAY) : 0;
  return [
    facts([
      [
        "Sessions",
        `${number(stats.sessions)}, ${number(stats.archived)} archived, ${number(stats.trashed)} in the trash`,
      ],
      ["Messages", number(stats.messages)],
      ["On the disk", size(stats.file_bytes)],
      days > 1 && [
        "Grew by",
        `${size(Math.round(stats.content_bytes / days))} of text a day on average`,
      ],
      stats.oldest_at && ["Since", dayOf(stats.oldest_at)],
      store && [
        "Kind",
        `${store.engine}, schema ${store.schema}${store.durability ? `, ${store.durability}` : ""}`,
      ],
      store?.path && ["Where", store.path],
      [
        "Last backup",
        backed_up_at
          ? h("span", { title: fullTime(backed_up_at) }, whenWords(backed_up_at))
          : [h("span", { class: "warn" }, "none known of: "), h("code", null, "clew backup")],
      ],
    ]),
    findings.length > 0 && h("h3", { class: "spaced" }, "Checked"),
    findings.length > 0 &&
      rows(
        findings.map((/** @type {any} */ { level, what, advice }) =>
          row(
            h("span", { class: { warning: "warn", problem: "bad" }[String(level)] ?? "" }, what),
            advice,
          ),
        ),
        "",
      ),
  ];
}

async function readEvents() {
  return (await call("status.events", { limit: MOST })).events;
}

/** @param {any[]} events */
function drawEvents(events) {
  return rows(
    events.map((each) =>
      row(
        [
          h("span", { class: "faint", title: fullTime(each.at) }, shortTime(each.at)),
          h("span", { class: { error: "bad", warning: "warn" }[String(each.level)] }, each.text),
          each.count > 1 && h("span", { class: "pill" }, `${number(each.count)} times`),
        ],
        [each.channel, each.ms && `${each.channel ? ", " : ""}took ${duration(each.ms)}`],
        each.session && h("a", { class: "button", href: `/s/${each.session}` }, "Open"),
      ),
    ),
    "Nothing has happened since the gateway started.",
  );
}

/**
 * "in 3 h 5 min", "2 min ago", or a date.
 *
 * @param {number} at
 */
function whenWords(at) {
  const until = at - Date.now();
  if (Math.abs(until) > 7 * DAY) return dayOf(at);
  const words = duration(Math.max(60_000, Math.abs(until))).replace(/ \d+ s$/, "");
  return until >= 0 ? `in ${words}` : `${words} ago`;
}
