// The panels that the dashboard has, with what Grafana sets where a panel says nothing.
import { type DataFrame, type FieldDisplay, getFieldDisplayValues, type GrafanaTheme2, type TimeRange, VizOrientation } from "@grafana/data";
import { LegendDisplayMode } from "@grafana/schema";
import { BigValue, BigValueColorMode, BigValueGraphMode, BigValueJustifyMode, BigValueTextMode, TimeSeries, VizRepeater } from "@grafana/ui";
import type { Panel } from "./main";

interface Props {
  panel: Panel;
  frames: DataFrame[];
  range: TimeRange;
  width: number;
  height: number;
  theme: GrafanaTheme2;
}

export function View(p: Props) {
  switch (p.panel.type) {
    case "timeseries":
      return <Lines {...p} />;
    case "stat":
      return <Stats {...p} />;
    default:
      throw new Error(`no panel is drawn of the type ${p.panel.type}`);
  }
}

const lines = {
  drawStyle: "line", lineInterpolation: "linear", lineWidth: 1, fillOpacity: 0, showPoints: "auto", pointSize: 5, spanNulls: false,
  axisPlacement: "auto", axisColorMode: "text", scaleDistribution: { type: "linear" }, stacking: { mode: "none", group: "A" }, hideFrom: { legend: false, tooltip: false, viz: false },
};

function Lines({ panel, frames, range, width, height }: Props) {
  const drawn = frames.map((f) => ({ ...f, fields: f.fields.map((field) => ({ ...field, config: { ...field.config, custom: { ...lines, ...field.config.custom } } })) }));
  const legend = { displayMode: LegendDisplayMode.List, placement: "bottom", calcs: [], showLegend: true, ...panel.options?.legend };
  return <TimeSeries frames={drawn} timeRange={range} timeZone="utc" width={width} height={height} legend={legend} options={{}} />;
}

function Stats({ panel, frames, width, height, theme }: Props) {
  const o = { colorMode: BigValueColorMode.Value, graphMode: BigValueGraphMode.Area, textMode: BigValueTextMode.Auto, justifyMode: BigValueJustifyMode.Auto, ...panel.options };
  const values = getFieldDisplayValues({
    fieldConfig: panel.fieldConfig as any, reduceOptions: { calcs: ["lastNotNull"], values: false, ...o.reduceOptions },
    replaceVariables: (s) => s, theme, data: frames, sparkline: o.graphMode !== BigValueGraphMode.None, timeZone: "utc",
  });
  return (
    <VizRepeater<FieldDisplay>
      source={values} getValues={() => values} renderCounter={0} width={width} height={height} autoGrid
      orientation={(o as any).orientation ?? VizOrientation.Auto} itemSpacing={3}
      renderValue={({ value, width, height, count }) => (
        <BigValue value={value.display} count={count} sparkline={value.sparkline} colorMode={o.colorMode} graphMode={o.graphMode}
          justifyMode={o.justifyMode} textMode={o.textMode} text={(o as any).text} width={width} height={height} theme={theme} />
      )}
    />
  );
}
