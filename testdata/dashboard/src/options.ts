// What a panel may say of its fields. Grafana's application has this list, and not its packages: here is what the dashboard uses.
import { FieldConfigOptionsRegistry, type FieldConfigPropertyItem } from "@grafana/data";

const item = (path: string, isCustom = false): FieldConfigPropertyItem => ({
  id: isCustom ? `custom.${path}` : path, path, name: path, isCustom,
  editor: () => null, override: () => null, process: (value: unknown) => value, shouldApply: () => true, settings: {},
} as unknown as FieldConfigPropertyItem);

export const registry = () => new FieldConfigOptionsRegistry(() => [
  ...["unit", "min", "max", "decimals", "color", "thresholds", "mappings", "displayName", "noValue"].map((path) => item(path)),
  ...["drawStyle", "lineInterpolation", "lineWidth", "fillOpacity", "showPoints", "pointSize", "spanNulls", "stacking", "axisPlacement", "axisLabel"].map((path) => item(path, true)),
]);
