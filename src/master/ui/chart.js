// One chart of the last hour, or of what there is of it: lines over time in an SVG, labels beside it in HTML, so that the
// drawing may stretch and the text does not. Numbers only go into attributes, texts into text nodes.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 1000, HEIGHT = 100;
export const SPAN_MS = 3600e3;
const SPANS_MIN = [5, 10, 20, 30, 60];

function svg(parent, tag, attributes) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    node.setAttribute(name, value);
  }
  parent.append(node);
  return node;
}

function add(parent, tag, name, text = "") {
  const node = document.createElement(tag);
  node.className = name;
  node.textContent = text;
  parent.append(node);
  return node;
}

// The next round value above: 1, 2 or 5 of a power of ten; of bytes a power of two.
function ceiling(value, binary) {
  if (!(value > 0)) {
    return binary ? 1024 : 1;
  }
  if (binary) {
    return 2 ** Math.ceil(Math.log2(value));
  }
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value);
}

// Stretches of a line without a gap: [[x, y], ..], y from 0 (bottom) to HEIGHT.
function stretches(points, value, x, top) {
  const found = [];
  let open = null;
  for (const point of points) {
    const y = value(point);
    if (y === null || !Number.isFinite(y)) {
      open = null;
      continue;
    }
    if (open === null) {
      open = [];
      found.push(open);
    }
    open.push([x(point.t), HEIGHT - (Math.min(y, top) / top) * HEIGHT]);
  }
  return found;
}

const path = (points) => "M" + points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(2)}`).join("L");

export class Chart {
  // series: [{name, color, value(point) -> number or null}]. top: the axis' end, or null for one
  // that fits; may be a function of the points.
  constructor(figure, series, {format, top = null, binary = false, filled = false}) {
    Object.assign(this, {series, format, top, binary, filled, points: [], hover: null,
      now: Date.now(), span: SPAN_MS});
    this.legend = add(figure, "div", "legend");
    const plot = add(figure, "div", "plot");
    this.svg = svg(plot, "svg", {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none",
      role: "img", "aria-label": `${series.map((one) => one.name).join(", ")}, last hour`});
    this.high = add(plot, "span", "top");
    add(plot, "span", "bottom", format(0));
    const times = add(figure, "div", "times");
    this.times = ["", "", "now"].map((text) => add(times, "span", "", text));
    plot.addEventListener("pointermove", (event) => {
      const box = plot.getBoundingClientRect();
      this.hover = (event.clientX - box.left) / box.width;
      this.show();
    });
    plot.addEventListener("pointerleave", () => {
      this.hover = null;
      this.show();
    });
  }

  draw(points, now) {
    const age = points.length > 0 ? (now - points[0].t) / 60e3 : 0;
    const minutes = SPANS_MIN.find((span) => span >= age) ?? SPANS_MIN.at(-1);
    Object.assign(this, {points, now, span: minutes * 60e3});
    this.times[0].textContent = `${minutes} min ago`;
    this.times[1].textContent = `${minutes / 2} min`;
    this.show();
  }

  show() {
    const x = (t) => WIDTH * (1 - (this.now - t) / this.span);
    const values = this.points.flatMap((point) => this.series.map((one) => one.value(point) ?? 0));
    const top = this.top ?? ceiling(Math.max(0, ...values), this.binary);
    this.svg.replaceChildren();
    for (const y of [0, HEIGHT / 2, HEIGHT]) {
      svg(this.svg, "path", {class: "grid", d: `M0,${y}H${WIDTH}`, "vector-effect":
        "non-scaling-stroke"});
    }
    for (const one of this.series) {
      for (const points of stretches(this.points, one.value, x, top)) {
        if (this.filled) {
          const [first, last] = [points[0][0], points.at(-1)[0]];
          svg(this.svg, "path", {class: `area ${one.color}`,
            d: `${path(points)}L${last.toFixed(1)},${HEIGHT}L${first.toFixed(1)},${HEIGHT}Z`});
        }
        svg(this.svg, "path", {class: `line ${one.color}`, d: path(points), "vector-effect":
          "non-scaling-stroke"});
      }
    }
    this.high.textContent = this.format(top);
    this.tell(x);
  }

  // The legend says the newest values, or those under the pointer.
  tell(x) {
    let point = this.points.at(-1), when = "";
    if (this.hover !== null && point) {
      const t = this.now - (1 - this.hover) * this.span;
      point = this.points.reduce((best, other) =>
        Math.abs(other.t - t) < Math.abs(best.t - t) ? other : best);
      svg(this.svg, "path", {class: "cursor", d: `M${x(point.t).toFixed(1)},0V${HEIGHT}`,
        "vector-effect": "non-scaling-stroke"});
      when = ` at ${new Date(point.t).toLocaleTimeString()}`;
    }
    this.legend.replaceChildren();
    for (const one of this.series) {
      const value = point ? one.value(point) : null;
      const item = add(this.legend, "span", "");
      add(item, "i", `swatch ${one.color}`);
      item.append(`${one.name} ${value === null ? "\u2013" : this.format(value)}${when}`);
    }
  }
}
