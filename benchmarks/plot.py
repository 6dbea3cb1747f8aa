"""A roofline plot as SVG: rates over arithmetic intensity, both on logarithmic scales."""

import math

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 860, 520, 70, 50, 20, 190
COLOURS = ("#c0392b", "#2c6fbb", "#27864a", "#b8860b", "#7d3c98")


class Axes:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def at(self, x, y):
        """Pixels of a point."""
        across = (math.log(x) - math.log(self.x[0])) / (math.log(self.x[1]) - math.log(self.x[0]))
        up = (math.log(y) - math.log(self.y[0])) / (math.log(self.y[1]) - math.log(self.y[0]))
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - BOTTOM - TOP)

    def grid(self):
        for k in range(math.ceil(math.log10(self.x[0])), math.floor(math.log10(self.x[1])) + 1):
            x, y = self.at(10.0**k, self.y[0])
            yield f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
            yield f'<text x="{x:.1f}" y="{y + 18:.1f}" text-anchor="middle">{10.0**k:g}</text>'
        for k in range(math.ceil(math.log10(self.y[0])), math.floor(math.log10(self.y[1])) + 1):
            x, y = self.at(self.x[0], 10.0**k)
            yield f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#ddd"/>'
            yield f'<text x="{x - 8:.1f}" y="{y + 4:.1f}" text-anchor="end">{10.0**k:g}</text>'


def _roof(axes, peak, memory):
    ridge = peak / memory
    points = [(axes.x[0], axes.x[0] * memory), (ridge, peak), (axes.x[1], peak)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (axes.at(x, max(y, axes.y[0])) for x, y in points))
    x, y = axes.at(axes.x[1], peak)
    return [f'<polyline points="{path}" fill="none" stroke="#333" stroke-width="1.5"/>',
            f'<text x="{x - 6:.1f}" y="{y - 6:.1f}" text-anchor="end">peak {peak:.0f} GFLOP/s; memory {memory:.1f} GB/s</text>']


def roofline(points, peak, memory):
    """SVG text. points: (contender, case, FLOP per byte, GFLOP/s); peak in GFLOP/s, memory in GB/s."""
    names = list(dict.fromkeys(p[0] for p in points))
    colour = {name: COLOURS[k % len(COLOURS)] for k, name in enumerate(names)}
    xs, ys = [p[2] for p in points], [p[3] for p in points]
    axes = Axes((min(*xs, 0.2) / 1.5, max(*xs, 100) * 1.5), (min(ys) / 1.5, peak * 1.6))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', *axes.grid(), *_roof(axes, peak, memory)]
    for name, case, x, y in points:
        px, py = axes.at(x, y)
        out.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="4" fill="{colour[name]}" fill-opacity="0.75">')
        out.append(f"<title>{name}: {case}, {y:.1f} GFLOP/s</title></circle>")
    for k, name in enumerate(names):
        out.append(f'<circle cx="{WIDTH - RIGHT + 22}" cy="{TOP + 14 + 20 * k}" r="5" fill="{colour[name]}"/>')
        out.append(f'<text x="{WIDTH - RIGHT + 34}" y="{TOP + 18 + 20 * k}">{name}</text>')
    across = (LEFT + WIDTH - RIGHT) / 2
    out.append(f'<text x="{across}" y="{HEIGHT - 10}" text-anchor="middle">floating-point operations per byte of arrays</text>')
    out.append(f'<text transform="translate(18,{HEIGHT / 2}) rotate(-90)" text-anchor="middle">GFLOP/s</text>')
    return "\n".join([*out, "</svg>", ""])
