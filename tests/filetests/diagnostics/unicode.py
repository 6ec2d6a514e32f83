# test diagnostics
import polyloom as loom


@loom.kernel
def größe(ñ: int, числа: loom.array(dtype=float)):
    """Ein Gruß: 日本語 🎉"""
    числа[0] = "🎉" if ñ > 0 else ñ; числа[1] = ñ + числа[2]
