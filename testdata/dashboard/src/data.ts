// Asks Prometheus for what a panel shows, as Grafana's data source does.
import {
  applyFieldOverrides, type DataFrame, FieldType, getFieldDisplayName, getValueFormat, type GrafanaTheme2, toDataFrame,
} from "@grafana/data";
import { registry } from "./options";
import type { Panel } from "./main";

export interface Query {
  from: number; // seconds since 1970
  to: number;
  step: number; // seconds
}

// Shown is what a panel shows: its series by their names in the legend, each with its number of samples.
export interface Shown {
  id: number;
  title: string;
  series: { name: string; target: string; samples: number }[];
  targets: string[];
  errors: string[];
  unit: string;
}

// The parts of Prometheus' answer that are of use here.
interface Series {
  metric: Record<string, string>;
  values: [number, string][];
}

export async function panelData(panel: Panel, query: Query, theme: GrafanaTheme2): Promise<{ frames: DataFrame[]; shown: Shown }> {
  const unit = (panel.fieldConfig.defaults as { unit?: string }).unit ?? "";
  const shown: Shown = { id: panel.id, title: panel.title, series: [], targets: panel.targets.map((t) => t.refId), errors: [], unit };
  if (unit && !known(unit)) shown.errors.push(`Grafana has no unit ${unit}`);
  const frames: DataFrame[] = [];
  for (const target of panel.targets) {
    try {
      for (const series of await range(target, query)) frames.push(frame(target, series, query));
    } catch (e) {
      shown.errors.push(`${target.refId}: ${e}`);
    }
  }
  const drawn = applyFieldOverrides({
    data: frames, fieldConfig: withDefaults(panel) as any, fieldConfigRegistry: registry(), replaceVariables: (s) => s, theme, timeZone: "utc",
  });
  for (const f of drawn) {
    const samples = f.fields[1].values.filter((v) => v !== null && !Number.isNaN(v)).length;
    shown.series.push({ name: getFieldDisplayName(f.fields[1], f, drawn), target: f.refId!, samples });
  }
  return { frames: drawn, shown };
}

// withDefaults adds what Grafana sets where a panel says nothing.
function withDefaults({ type, fieldConfig }: Panel) {
  const mode = type === "timeseries" ? "palette-classic" : "thresholds";
  const thresholds = { mode: "absolute", steps: [{ color: "green", value: null }, { color: "red", value: 80 }] };
  return { ...fieldConfig, defaults: { color: { mode }, thresholds, ...fieldConfig.defaults } };
}

// known: a unit that Grafana does not know is a suffix to it.
const known = (unit: string) => unit === "none" || getValueFormat(unit)(12345).text !== getValueFormat(`no-${unit}`)(12345).text || getValueFormat(unit)(12345).suffix !== ` ${unit}`;

async function range({ expr, instant }: Panel["targets"][number], query: Query): Promise<Series[]> {
  // Grafana takes four scrapes, or more when the step is longer.
  const parameters = new URLSearchParams({
    query: expr.replaceAll("$__rate_interval", `${4 * query.step}s`).replaceAll("$__range", `${query.to - query.from}s`),
    start: String(instant ? query.to : query.from), end: String(query.to), step: String(query.step),
  });
  const answer = await (await fetch(`/api/v1/query_range?${parameters}`)).json();
  if (answer.status !== "success") throw new Error(answer.error);
  return answer.data.result;
}

// frame has a value for each step, null where Prometheus has none.
function frame(target: Panel["targets"][number], series: Series, query: Query): DataFrame {
  const values = new Map(series.values.map(([at, value]) => [Math.round(at), Number(value)]));
  const times: number[] = [];
  for (let at = query.from; at <= query.to; at += query.step) times.push(at);
  const name = legend(target.legendFormat, series.metric);
  return toDataFrame({
    refId: target.refId,
    fields: [
      { name: "Time", type: FieldType.time, values: times.map((at) => at * 1000) },
      { name: "Value", type: FieldType.number, labels: series.metric, values: times.map((at) => values.get(at) ?? null), config: { displayNameFromDS: name } },
    ],
  });
}

// legend fills in labels. One that the series does not have stays as it is, as in Grafana, so that the test finds it.
const legend = (format: string, labels: Record<string, string>) => format.replace(/\{\{\s*(.+?)\s*\}\}/g, (all, name) => labels[name] ?? all);
