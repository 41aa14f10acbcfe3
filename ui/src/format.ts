// Figures as people read them.

export function number(value: number | null | undefined): string {
    if (value === null || value === undefined || !Number.isFinite(value)) return '–';
    const size = Math.abs(value);
    if (size >= 1e9) return (value / 1e9).toFixed(2) + ' G';
    if (size >= 1e7) return (value / 1e6).toFixed(1) + ' M';
    if (size >= 1e6) return (value / 1e6).toFixed(2) + ' M';
    if (size >= 1e4) return (value / 1e3).toFixed(1) + ' k';
    if (size >= 100 || Number.isInteger(value)) return Math.round(value).toString();
    return size >= 10 ? value.toFixed(1) : value.toFixed(2);
}

export const count = (value: number | null | undefined) => (value ?? 0).toLocaleString('en');

export function micros(us: number | null | undefined): string {
    if (us === null || us === undefined || !Number.isFinite(us)) return '–';
    if (us === 0) return '0';
    if (us < 1e3) return Math.round(us) + ' µs';
    if (us < 1e6) return (us / 1e3).toFixed(us < 1e4 ? 2 : us < 1e5 ? 1 : 0) + ' ms';
    return span(us / 1e6);
}

export const millis = (ms: number | null | undefined) => micros(ms === null || ms === undefined ? ms : ms * 1e3);

export function span(seconds: number): string {
    if (seconds < 10) return seconds.toFixed(2) + ' s';
    if (seconds < 60) return seconds.toFixed(1) + ' s';
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
    if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
    return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

export function bytes(value: number | null | undefined): string {
    if (value === null || value === undefined) return '–';
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    let unit = 0;
    while (value >= 1024 && unit < 4) {
        value /= 1024;
        unit += 1;
    }
    return (unit && value < 100 ? value.toFixed(1) : Math.round(value)) + ' ' + units[unit];
}

export const many = (number: number, noun: string) => `${number} ${noun}${number === 1 ? '' : 's'}`;

export const share = (part: number, whole: number) => (whole > 0 ? ((100 * part) / whole).toFixed(1) + ' %' : '–');

const two = (value: number) => String(value).padStart(2, '0');

export function clock(ms: number): string {
    const at = new Date(ms);
    return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

export function moment(ms: number): string {
    const at = new Date(ms);
    const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
    return at.toDateString() === new Date().toDateString() ? clock(ms) : `${day} ${clock(ms)}`;
}
