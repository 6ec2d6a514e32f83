import numpy as np
import polyloom as loom


@loom.kernel
def swing(angle: loom.array(dtype=float), dt: float, period: loom.array(dtype=float)):
    i = loom.tid()
    theta = angle[i]
    omega = 0.0
    time = 0.0
    while theta > 0.0:  # a quarter of a period: from rest to the lowest point
        omega -= dt * loom.sin(theta)
        theta += dt * omega
        time += dt
    period[i] = 4.0 * time


angle = np.linspace(0.1, 3.0, 1_000_000, dtype=np.float32)
period = np.zeros_like(angle)
loom.launch(swing, angle.size, inputs=[angle, 1e-3], outputs=[period])
print(f"a million pendulums; {np.degrees(angle[-1]):.0f} degrees take {period[-1]:.2f} s, {period[0]:.2f} s when small")
