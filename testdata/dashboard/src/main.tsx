// Draws the chart's dashboard with Grafana's own components and the data of the
// Prometheus that serves this page. Its address says what:
//
//	?dashboard=URL    the JSON of the dashboard
//	&seconds=N        how far back from now
//	&step=N           seconds between two samples
//
// When all panels are drawn, window.panels has what each shows, for the test.
import { createTheme, dateTime, ThemeContext, type TimeRange } from "@grafana/data";
import { initPluginTranslations } from "@grafana/i18n";
import { GlobalStyles, PanelChrome } from "@grafana/ui";
import "uplot/dist/uPlot.min.css";
import { createRoot } from "react-dom/client";
import { type Shown, panelData } from "./data";
import { View } from "./view";

export interface Panel {
  id: number;
  type: string;
  title: string;
  description?: string;
  gridPos: { h: number; w: number; x: number; y: number };
  fieldConfig: { defaults: object; overrides: object[] };
  options?: Record<string, any>;
  targets: { refId: string; expr: string; legendFormat: string; instant?: boolean }[];
}

declare global {
  interface Window {
    panels?: Shown[];
    failed?: string;
  }
}

// Grafana's grid: 24 columns, rows of 30 px, 8 px between panels.
const width = 1600, row = 30, gap = 8;

const theme = createTheme({ colors: { mode: "dark" } });

async function main() {
  const asked = new URLSearchParams(location.search);
  await initPluginTranslations("wasm-ccm");
  const dashboard: { panels: Panel[] } = await (await fetch(asked.get("dashboard")!)).json();
  const step = Number(asked.get("step")), to = Math.floor(Date.now() / 1000);
  const from = to - Math.ceil(Number(asked.get("seconds")) / step) * step; // so that the last step is now
  const range: TimeRange = { from: dateTime(from * 1000), to: dateTime(to * 1000), raw: { from: dateTime(from * 1000), to: dateTime(to * 1000) } };
  const query = { from, to, step };
  const drawn = await Promise.all(dashboard.panels.map((p) => panelData(p, query, theme)));

  const column = (width + gap) / 24;
  const height = Math.max(...dashboard.panels.map((p) => p.gridPos.y + p.gridPos.h)) * (row + gap);
  createRoot(document.getElementById("root")!).render(
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <div style={{ position: "relative", width, height }}>
        {dashboard.panels.map((p, i) => {
          const w = p.gridPos.w * column - gap, h = p.gridPos.h * (row + gap) - gap;
          return (
            <div key={p.id} id={`panel-${p.id}`} style={{ position: "absolute", left: p.gridPos.x * column, top: p.gridPos.y * (row + gap), width: w, height: h }}>
              <PanelChrome title={p.title} description={p.description} width={w} height={h}>
                {(innerWidth, innerHeight) => <View panel={p} frames={drawn[i].frames} range={range} width={innerWidth} height={innerHeight} theme={theme} />}
              </PanelChrome>
            </div>
          );
        })}
      </div>
    </ThemeContext.Provider>,
  );
  window.panels = drawn.map((d) => d.shown);
}

main().catch((e) => {
  window.failed = String(e?.stack ?? e);
});
