// Charts as SVG. A line has points [milliseconds, value]; all lines of a chart share both axes.

import { useMemo, useRef, useState } from 'preact/hooks';
import { clock, moment } from './format';

export interface Line {
    name: string;
    points: [number, number | null][];
}
export interface Mark {
    at: number;
    text: string;
}

const WIDTH = 600;
const HEIGHT = 150;
const LEFT = 52;
const BOTTOM = 18;
const TOP = 8;

export function Chart(props: {
    title: string;
    lines: Line[];
    shown?: (value: number) => string;
    stacked?: boolean;
    marks?: Mark[];
    from?: number;
    to?: number;
}) {
    const shown = props.shown ?? String;
    const [at, setAt] = useState<number | null>(null);
    const own = useRef<SVGSVGElement>(null);
    const lines = useMemo(() => (props.stacked ? stack(props.lines) : props.lines), [props.lines, props.stacked]);
    const all = lines.flatMap(line => line.points);
    const times = all.map(point => point[0]);
    const from = props.from ?? (times.length ? Math.min(...times) : 0);
    const to = props.to ?? (times.length ? Math.max(...times) : 1);
    const top = ceiling(Math.max(0, ...all.map(point => point[1] ?? 0)));
    const x = (time: number) => LEFT + ((time - from) / Math.max(1, to - from)) * (WIDTH - LEFT - 4);
    const y = (value: number) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - BOTTOM - TOP);
    const nearest = (line: Line) => {
        if (at === null) return null;
        let best: [number, number | null] | null = null;
        for (const point of line.points) if (!best || Math.abs(point[0] - at) < Math.abs(best[0] - at)) best = point;
        return best;
    };
    const point = (event: MouseEvent) => {
        const box = own.current?.getBoundingClientRect();
        if (!box) return;
        const place = ((event.clientX - box.left) / box.width) * WIDTH;
        setAt(from + ((place - LEFT) / (WIDTH - LEFT - 4)) * (to - from));
    };
    return (
        <figure class="chart">
            <figcaption>
                {props.title}
                <span class="legend">
                    {props.lines.map((line, index) => {
                        const value = at === null ? line.points[line.points.length - 1] : nearest(line);
                        return (
                            <span>
                                <i class={'line' + (index % 8)} /> {line.name} <b>{value?.[1] === null || !value ? '–' : shown(value[1])}</b>
                            </span>
                        );
                    })}
                    {at !== null && <span>{moment(at)}</span>}
                </span>
            </figcaption>
            <svg
                ref={own}
                viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
                role="img"
                aria-label={props.title}
                onMouseMove={point}
                onMouseLeave={() => setAt(null)}
            >
                {[0, 0.5, 1].map(part => (
                    <g class="grid">
                        <line x1={LEFT} x2={WIDTH - 4} y1={y(top * part)} y2={y(top * part)} />
                        <text x={LEFT - 6} y={y(top * part) + 3.5} text-anchor="end">
                            {shown(top * part)}
                        </text>
                    </g>
                ))}
                <g class="grid">
                    <text x={LEFT} y={HEIGHT - 4}>
                        {times.length ? moment(from) : ''}
                    </text>
                    <text x={WIDTH - 4} y={HEIGHT - 4} text-anchor="end">
                        {times.length ? clock(to) : ''}
                    </text>
                </g>
                {(props.stacked ? [...lines].reverse() : lines).map((line, index) => {
                    const color = props.stacked ? lines.length - 1 - index : index;
                    return (
                        <path
                            class={(props.stacked ? 'area area' : 'path line') + (color % 8)}
                            d={props.stacked ? area(line.points, x, y) : path(line.points, x, y)}
                        />
                    );
                })}
                {(props.marks ?? [])
                    .filter(mark => mark.at >= from && mark.at <= to)
                    .map(mark => (
                        <g class="mark">
                            <line x1={x(mark.at)} x2={x(mark.at)} y1={TOP} y2={HEIGHT - BOTTOM} />
                            <title>{`${moment(mark.at)} ${mark.text}`}</title>
                        </g>
                    ))}
                {at !== null && at >= from && at <= to && <line class="cursor" x1={x(at)} x2={x(at)} y1={TOP} y2={HEIGHT - BOTTOM} />}
            </svg>
        </figure>
    );
}

/** A round number that is not below this one. */
export function ceiling(value: number): number {
    if (value <= 0) return 1;
    const power = 10 ** Math.floor(Math.log10(value));
    for (const step of [1, 1.5, 2, 3, 4, 5, 6, 8, 10]) if (step * power >= value) return step * power;
    return 10 * power;
}

function path(points: Line['points'], x: (time: number) => number, y: (value: number) => number): string {
    let out = '';
    let pen = false;
    for (const [time, value] of points) {
        if (value === null) {
            pen = false;
            continue;
        }
        out += `${pen ? 'L' : 'M'}${x(time).toFixed(1)} ${y(value).toFixed(1)}`;
        pen = true;
    }
    return out;
}

function area(points: Line['points'], x: (time: number) => number, y: (value: number) => number): string {
    const first = points[0];
    const last = points[points.length - 1];
    if (!first || !last) return '';
    const line = points.map(([time, value]) => `L${x(time).toFixed(1)} ${y(value ?? 0).toFixed(1)}`).join('');
    return `M${x(first[0]).toFixed(1)} ${y(0)}${line}L${x(last[0]).toFixed(1)} ${y(0)}Z`;
}

/** Each line on top of those before it. They have the same times. */
function stack(lines: Line[]): Line[] {
    const sums: number[] = [];
    return lines.map(line => ({
        name: line.name,
        points: line.points.map(([time, value], index) => {
            sums[index] = (sums[index] ?? 0) + (value ?? 0);
            return [time, sums[index] ?? 0];
        }),
    }));
}

export interface Bubble {
    id: string;
    x: number;
    y: number;
    size: number;
    kind: string;
    text: string;
}

/** Bubbles on logarithmic axes, cut into four fields. */
export function Quadrant(props: {
    bubbles: Bubble[];
    xName: string;
    yName: string;
    xShown: (value: number) => string;
    yShown: (value: number) => string;
    fields: [string, string, string, string];
    onChoose: (id: string) => void;
    chosen?: string;
}) {
    const [width, height, left, bottom] = [1000, 300, 60, 34];
    const bubbles = props.bubbles.filter(bubble => bubble.x > 0 && bubble.y > 0);
    const ends = (values: number[]): [number, number] => {
        const [low, high] = [Math.min(...values), Math.max(...values)].map(Math.log10) as [number, number];
        return high - low < 1 ? [low - 0.5, high + 0.5] : [low - 0.1 * (high - low), high + 0.1 * (high - low)];
    };
    if (!bubbles.length) return null;
    const [xLow, xHigh] = ends(bubbles.map(bubble => bubble.x));
    const [yLow, yHigh] = ends(bubbles.map(bubble => bubble.y));
    const most = Math.max(...bubbles.map(bubble => bubble.size), 1);
    const x = (value: number) => left + ((Math.log10(value) - xLow) / (xHigh - xLow)) * (width - left - 8);
    const y = (value: number) => height - bottom - ((Math.log10(value) - yLow) / (yHigh - yLow)) * (height - bottom - 8);
    const [xMiddle, yMiddle] = [(left + width - 8) / 2, (height - bottom + 8) / 2];
    const [oftenFast, oftenSlow, seldomSlow, seldomFast] = props.fields;
    return (
        <svg class="quadrant" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`${props.yName} against ${props.xName}`}>
            <rect class="hotfield" x={xMiddle} y={8} width={width - 8 - xMiddle} height={yMiddle - 8} />
            <g class="grid">
                <line x1={xMiddle} x2={xMiddle} y1={8} y2={height - bottom} />
                <line x1={left} x2={width - 8} y1={yMiddle} y2={yMiddle} />
                <text x={width - 14} y={22} text-anchor="end">{oftenSlow}</text>
                <text x={width - 14} y={height - bottom - 6} text-anchor="end">{oftenFast}</text>
                <text x={left + 6} y={22}>{seldomSlow}</text>
                <text x={left + 6} y={height - bottom - 6}>{seldomFast}</text>
                <text x={left} y={height - 18}>{props.xShown(10 ** xLow)}</text>
                <text x={width - 8} y={height - 18} text-anchor="end">{props.xShown(10 ** xHigh)}</text>
                <text x={(left + width) / 2} y={height - 5} text-anchor="middle">{props.xName} →</text>
                <text x={left - 6} y={height - bottom} text-anchor="end">{props.yShown(10 ** yLow)}</text>
                <text x={left - 6} y={16} text-anchor="end">{props.yShown(10 ** yHigh)}</text>
                <text x={12} y={height / 2} text-anchor="middle" transform={`rotate(-90 12 ${height / 2})`}>{props.yName} →</text>
            </g>
            {[...bubbles]
                .sort((one, other) => other.size - one.size)
                .map(bubble => (
                    <circle
                        key={bubble.id}
                        class={`bubble ${bubble.kind} ${bubble.id === props.chosen ? 'chosen' : ''}`}
                        cx={x(bubble.x)}
                        cy={y(bubble.y)}
                        r={4 + 16 * Math.sqrt(bubble.size / most)}
                        onClick={() => props.onChoose(bubble.id)}
                    >
                        <title>{bubble.text}</title>
                    </circle>
                ))}
        </svg>
    );
}
