# test run
import polyloom as loom


# run: @k0[1]([5, 8, 9, 0, 4, 2]) == [238, 8, 9, 0, 9, 89]
@loom.kernel
def k0(a: loom.array(dtype=int)):
    v0 = a[0]
    v1 = a[1]
    v2 = a[2]
    v3 = a[3]
    for v3 in range(1, 6):
        v0 = 1
        a[a[v0 & 3] & 3] = ((0 - ((v2 + v2) & 1023)) & 1023) & 255
    if ((((v1 ^ v2) & 1023) != v0 or v3 > ((v1 * v0) & 1023)) and ((v3 if 2 == 4 else v0) != (v2 if v0 < v1 else v2) and 1 <= ((v3 | v0) & 1023))) and (v3 <= v1 and 3 > ((v2 & v1) & 1023)):
        return
    v3 = ((8 * ((v1 ^ 2) & 1023)) & 1023)
    if not ((((v1 ^ v3) & 1023) < ((v1 + v0) & 1023) or v0 < 8)) and (v3 == 4 or (v3 if v3 < ((v1 - v2) & 1023) else v1) < v3):
        return
    if v1 == v0 and ((v2 if ((v2 | v3) & 1023) < ((v2 - v3) & 1023) else v1) == 1 or ((v2 | v2) & 1023) == v3):
        return
    a[4] = v0 + v1
    a[5] = v2 ^ v3


# run: @k1[1]([1, 9, 2, 5, 8, 9]) == [1, 9, 2, 9, 19, 7]
@loom.kernel
def k1(a: loom.array(dtype=int)):
    v0 = a[0]
    v1 = a[1]
    v2 = a[2]
    v3 = a[3]
    v1 = v1
    if ((v3 ^ v2) & 1023) < v2 <= a[v3 & 3]:
        if 1 != ((v1 - v1) & 1023) and (v1 < v0 or v3 < 9):
            return
        if v1 < v3:
            if ((v0 - v1) & 1023) > 8:
                if ((v3 - v0) & 1023) <= ((v3 * v2) & 1023) and a[v3 & 3] == v3:
                    return
                v2 = (v3 if ((v2 * v0) & 1023) <= v2 else v1)
                v2, v3 = ((v2 ^ v3) & 1023), v2
            else:
                if not (7 == ((v3 ^ v3) & 1023)):
                    v1 += v0 & 7
                    v1, v0 = a[v1 & 3], v1
                    v0 = v0
                    v1, v2 = ((a[v0 & 3] + ((v0 & v2) & 1023)) & 1023), v1
            if (v0 < (v2 if v2 < v2 else v3) <= ((v2 * v1) & 1023) or v2 == ((v0 | v1) & 1023)) and ((v2 & v2) & 1023) <= ((v2 ^ v3) & 1023):
                return
            v0 += v3 & 7
            for v0 in range(0, 3):
                if ((v2 & v2) & 1023) <= ((v3 - v0) & 1023):
                    a[v2 & 3] ^= a[v1 & 3] & 255
                    v2 += v2 & 7
                elif not (((v3 ^ v0) & 1023) > ((v2 & v0) & 1023)):
                    v0 = 7
                    v0 += 5 & 7
                    v1 = ((v0 - v0) & 1023)
                    v1 = ((v3 | v0) & 1023)
                v1 = v0
    elif ((v2 * v1) & 1023) < v2:
        if ((v0 > v3 or v0 > v1) or ((((v1 & v3) & 1023) == v1 or ((v2 + v2) & 1023) != 7) and not (v2 < ((v1 & v0) & 1023)))):
            v1 = v0
            v1 += ((v1 | v0) & 1023) & 7
        elif (((((v3 & v2) & 1023) != v1 and ((v0 + v2) & 1023) <= ((v3 * v3) & 1023)) and 7 < v2 <= a[v2 & 3]) or (v0 != ((v1 ^ v3) & 1023) and ((v3 - v0) & 1023) < v1 <= ((v1 + v3) & 1023))):
            v0 = (a[v2 & 3] if ((v1 * v2) & 1023) > v2 else ((a[v3 & 3] ^ 1) & 1023))
    else:
        v1 += v3 & 7
        v0 = 3
        v1 += ((v0 * v1) & 1023) & 7
        a[v0 & 3] += ((a[v0 & 3] ^ 1) & 1023) & 255
    a[4] = v0 + v1
    a[5] = v2 ^ v3


# run: @k2[1]([4, 1, 8, 7, 9, 2]) == [4, 1, 8, 7, 9, 2]
@loom.kernel
def k2(a: loom.array(dtype=int)):
    v0 = a[0]
    v1 = a[1]
    v2 = a[2]
    v3 = a[3]
    v2 += v1 & 7
    if (a[v1 & 3] <= 0 or v2 == ((v2 - v2) & 1023)) and a[v2 & 3] != a[v1 & 3]:
        return
    if (v2 <= 6 or v3 <= 8) and v3 != a[v0 & 3]:
        return
    v3 = v2
    for v2 in range(3, 5):
        v1 += ((v3 + v3) & 1023) & 7
        if (((((v1 & v3) & 1023) < ((v2 | v1) & 1023) and 8 == ((v2 ^ v2) & 1023)) or v0 < 1 <= v2) or (v1 < (v3 if v1 == v0 else v0) <= v0 and (a[v1 & 3] < 1 or a[v3 & 3] <= v0))):
            if 4 < a[v2 & 3] <= v1:
                if 4 == v2:
                    v1, v2 = ((v0 - ((v2 & v3) & 1023)) & 1023), v1
                    v2, v3 = v2, v2
                    v0 = v3
                    v2 = ((((2 - ((v3 & v2) & 1023)) & 1023) | ((v1 * 6) & 1023)) & 1023)
                elif not (v0 <= v3):
                    v1 += 5 & 7
                else:
                    a[((v3 + v0) & 1023) & 3] ^= ((v0 | v2) & 1023) & 255
                    v3 += ((v0 ^ v2) & 1023) & 7
                    v1 = ((v3 + ((((v1 + v1) & 1023) | ((v1 - v2) & 1023)) & 1023)) & 1023)
                v2 += v1 & 7
            else:
                v2 = a[v3 & 3]
                v1 += v3 & 7
                v1 = ((((v1 - v0) & 1023) | (((v2 if v0 < v3 else v2) * v0) & 1023)) & 1023)
            a[((v1 ^ v3) & 1023) & 3] = ((v3 + v2) & 1023) & 255
            v0, v3 = (v1 if a[v0 & 3] > ((v1 * v3) & 1023) else ((v2 + v3) & 1023)), v0
            a[v1 & 3] += ((((v3 & v1) & 1023) * ((v2 ^ v0) & 1023)) & 1023) & 255
        a[((v3 & v3) & 1023) & 3] ^= 6 & 255
        v2 += 9 & 7
    else:
        v0 = v1
        v0 = ((((v3 * v2) & 1023) | a[v0 & 3]) & 1023)
        v1 = ((v0 ^ a[v2 & 3]) & 1023)
        v0, v2 = a[v1 & 3], v0
    a[4] = v0 + v1
    a[5] = v2 ^ v3


# run: @k3[1]([9, 8, 1, 5, 1, 4]) == [9, 8, 1, 5, 1, 1]
@loom.kernel
def k3(a: loom.array(dtype=int)):
    v0 = a[0]
    v1 = a[1]
    v2 = a[2]
    v3 = a[3]
    if 9 < v3 <= 3:
        v0 = 8
        if 0 < ((v1 & v0) & 1023) <= (v2 if ((v1 + v3) & 1023) == v0 else v1):
            v3 = ((((((v2 + v1) & 1023) & 6) & 1023) * (((v2 if v0 < ((v2 * v3) & 1023) else v2) ^ (v0 if 8 == ((v2 + v0) & 1023) else v0)) & 1023)) & 1023)
            v1 += 9 & 7
        else:
            a[6 & 3] = v3 & 255
            f1 = 0
            while f1 < 1 and v3 != v2:
                f1 += 1
                v3 = 2
                if a[v0 & 3] > v0:
                    break
                if 5 == ((v3 + v0) & 1023):
                    v0 += v2 & 7
                    v2, v0 = v3, v2
                for v0 in range(1, 5):
                    v0 = (v2 if (v1 if (v1 if v3 <= ((v2 | v3) & 1023) else v2) > v3 else v2) != v3 else ((((v1 - v2) & 1023) | v0) & 1023))
        if v3 > 9 and v1 <= ((v0 * v1) & 1023):
            return
        v2, v1 = v3, v2
    if not (v2 == ((v1 & v1) & 1023)):
        if not (((v2 - v0) & 1023) > v2) and 2 != v2:
            return
        v3, v1 = 9, v3
        if v3 < v3 <= v0 and not (((v3 - v0) & 1023) > v1):
            return
        v1 = v2
    else:
        if (((v3 & v2) & 1023) == v1 or ((v2 == v1 or a[v3 & 3] == 7) or v0 <= ((v3 + v3) & 1023))):
            if ((v1 & v3) & 1023) <= 4:
                for w3 in range(3, 0, -1):
                    a[v3 & 3] = 8 & 255
                v0 += (v3 if ((v3 ^ v0) & 1023) == (v3 if ((v0 + v2) & 1023) < ((v0 + v0) & 1023) else v3) else v0) & 7
                v1 += v2 & 7
            else:
                a[((v1 ^ v3) & 1023) & 3] = ((((v0 + v1) & 1023) - ((v2 - v0) & 1023)) & 1023) & 255
                v3 = v1
            v3 = ((v0 - ((v0 - 3) & 1023)) & 1023)
            v2 = ((5 + v2) & 1023)
            v2 += v1 & 7
        v1 += v3 & 7
        v3 = v2
        v2 = ((((((v0 * v2) & 1023) + (v1 if a[v1 & 3] <= v2 else v3)) & 1023) + (1 if v2 != 5 else 3)) & 1023)
    v0 = ((v0 - v0) & 1023)
    v3 = ((a[v2 & 3] * v0) & 1023)
    a[4] = v0 + v1
    a[5] = v2 ^ v3


# run: @k4[1]([7, 9, 6, 7, 0, 8]) == [14, 9, 2, 7, 14, 4]
@loom.kernel
def k4(a: loom.array(dtype=int)):
    v0 = a[0]
    v1 = a[1]
    v2 = a[2]
    v3 = a[3]
    v1, v0 = v3, v1
    if v0 <= (v1 if ((v0 ^ v1) & 1023) == ((v1 + v2) & 1023) else v3):
        a[v3 & 3] = (v1 if a[v1 & 3] != v0 else a[v3 & 3]) & 255
    else:
        a[v2 & 3] ^= 4 & 255
        v0 = v1
        for v2 in range(4):
            if (v1 if (v1 if v1 != ((v1 ^ v3) & 1023) else v2) > a[v0 & 3] else v3) < v3:
                if not (v0 == v3):
                    v1 = v1
                    v3 = ((v2 | v2) & 1023)
                else:
                    v3 += 3 & 7
                    v3, v0 = (((v3 if 6 == 8 else v0) ^ v3) & 1023), v3
                if (v3 != v0 and (a[v0 & 3] <= ((v0 * v1) & 1023) or ((v1 | v2) & 1023) <= v3)):
                    continue
            if a[v0 & 3] <= ((v0 ^ v1) & 1023):
                if ((v3 != 3 or v3 != ((v1 - v1) & 1023)) and (5 == v1 and v3 > ((v0 | v1) & 1023))) and (v1 == ((v1 + v0) & 1023) or ((v3 * v0) & 1023) > v1):
                    return
            f2 = 0
            while f2 < 4 and not ((v2 if v3 < 7 else v2) != v2):
                f2 += 1
                v3 = (((v3 if not (v1 <= ((v1 ^ v1) & 1023)) else a[v1 & 3]) + v2) & 1023)
                for v3 in range(1 & 3):
                    v0 = v3
        v1 = v3
    for w4 in range(v1 & 3):
        f5 = 0
        while f5 < 1 and (((v3 ^ v2) & 1023) != 0 or ((v3 ^ v3) & 1023) != 1):
            f5 += 1
            if not (not (((v0 * v2) & 1023) == ((v1 | v2) & 1023))) and v3 <= ((v0 + v3) & 1023):
                return
            for v0 in range(6 & 3, a[v0 & 3] & 7, 2):
                if ((not (((v1 & v3) & 1023) < v2) or (v2 if v1 <= v3 else v1) < a[v3 & 3] <= v0) or ((v0 - v0) & 1023) == v3):
                    v3 = v0
                    v3, v2 = (v0 if v3 == 8 else v3), v3
                for v0 in range(5, -1, -1):
                    v1 = (v2 if v0 < (v1 if ((v0 | v0) & 1023) == v3 else v2) else v3)
                    v2 = v3
                    v2, v1 = ((v1 + 0) & 1023), v2
                    v0 = ((2 & ((v0 & v1) & 1023)) & 1023)
                if (v0 == v0 and not (a[v3 & 3] < ((v2 | v0) & 1023) <= v1)):
                    v3 = a[v0 & 3]
                    a[a[v0 & 3] & 3] += a[v0 & 3] & 255
                    v1, v0 = v0, v1
                else:
                    a[v2 & 3] += ((a[v0 & 3] * ((v0 + v3) & 1023)) & 1023) & 255
                    v0 = ((a[v3 & 3] | ((4 * v1) & 1023)) & 1023)
            a[((v0 + v1) & 1023) & 3] += v1 & 255
    if ((((v2 | v0) & 1023) < ((v1 | v2) & 1023) or ((v1 - v2) & 1023) == ((v3 - v3) & 1023)) or not (v2 > 3)):
        v1 = a[v3 & 3]
        v3 = a[v2 & 3]
        a[4 & 3] += a[v2 & 3] & 255
        v0 = ((v3 & 7) & 1023)
    elif 8 > ((v0 & v1) & 1023):
        v2, v1 = v2, v2
        a[9 & 3] ^= v3 & 255
    v3 += ((v3 ^ v0) & 1023) & 7
    a[4] = v0 + v1
    a[5] = v2 ^ v3


# run: @k5[1]([5, 7, 6, 3, 4, 0]) == [168, 7, 150, 3, 1036, 169]
@loom.kernel
def k5(a: loom.array(dtype=int)):
    v0 = a[0]
    v1 = a[1]
    v2 = a[2]
    v3 = a[3]
    if ((((v2 | v2) & 1023) == (v0 if v1 <= v1 else v3) or ((v2 if v2 != v0 else v0) > (v2 if a[v0 & 3] != ((v2 | v0) & 1023) else v1) and 0 > ((v2 & v2) & 1023))) or ((v2 * v3) & 1023) != v3):
        v3 += ((v2 * v0) & 1023) & 7
        if (a[v1 & 3] > v1 and ((v2 + v1) & 1023) <= 5):
            v1 = v3
        else:
            v2, v0 = ((v0 - ((v3 * v1) & 1023)) & 1023), v2
            for w1 in range(1, 3):
                if (((v0 > ((v1 ^ v1) & 1023) and v2 != 6) or (v2 < ((v2 + v3) & 1023) and 1 > v1)) and v1 < v0):
                    v0 = v3
                    v3 = ((((v1 | 8) & 1023) | 1) & 1023)
                    v1, v3 = v0, v1
                    v0, v2 = v2, v0
                elif ((v2 + v2) & 1023) < a[v2 & 3]:
                    v3 = v1
                else:
                    a[v2 & 3] ^= ((v3 * ((v1 + v3) & 1023)) & 1023) & 255
                    v1 = a[v0 & 3]
                    v2 += a[v1 & 3] & 7
                for v3 in range(0, 0):
                    a[v1 & 3] ^= 8 & 255
                    v0 = 9
                else:
                    v0 = v3
                    v1 = ((a[v1 & 3] ^ v0) & 1023)
                    v3 += a[v2 & 3] & 7
                    v1, v3 = ((a[v0 & 3] * v2) & 1023), v1
            if ((v1 | v0) & 1023) <= ((v3 | v0) & 1023) and v0 <= 6:
                return
            v2 = 0
        v0 = v0
        if (not ((v3 if v0 == v2 else v0) != 8) or not ((((v0 + v2) & 1023) <= 8 and ((v0 * v3) & 1023) == (v2 if 8 == ((v0 ^ v2) & 1023) else v3)))):
            if a[v1 & 3] != 2:
                if ((v3 * v2) & 1023) <= v0 and v2 == v0:
                    return
                if not (((v2 ^ v0) & 1023) == v0) and 0 != ((v1 + v2) & 1023):
                    return
    else:
        v2 = 0
        if v1 < a[v1 & 3]:
            v0 = v1
        elif 3 > ((v0 * v1) & 1023):
            if v1 == ((v3 * v3) & 1023) and v2 != v2:
                return
            if ((((v1 - v0) & 1023) > ((v0 & v1) & 1023) or v0 < a[v1 & 3]) or v1 < v1 <= v2) and v2 < v2 <= ((v0 - v3) & 1023):
                return
        else:
            v3 = (((((v2 * v1) & 1023) if (((v3 * v1) & 1023) <= a[v2 & 3] or ((v1 | v1) & 1023) <= v2) else ((v2 + v2) & 1023)) | v2) & 1023)
            if v1 <= v2:
                v2 = ((9 ^ v3) & 1023)
                a[v1 & 3] ^= ((((v1 + v3) & 1023) ^ ((v0 + v3) & 1023)) & 1023) & 255
                a[a[v3 & 3] & 3] = 7 & 255
                a[((v0 & v0) & 1023) & 3] ^= v0 & 255
            v0 += (v1 if v3 != v2 else v0) & 7
        v0 += ((v0 - v0) & 1023) & 7
        v3 = v2
    a[v1 & 3] += v2 & 255
    v3 += ((v2 | v3) & 1023) & 7
    v2 = (v3 if ((v2 & v1) & 1023) > v2 else v0)
    v2 = (2 if (3 != v0 or not (v2 != ((v1 & v2) & 1023))) else 4)
    v2 += v0 & 7
    a[4] = v0 + v1
    a[5] = v2 ^ v3


# run: @k6[1]([4, 5, 3, 3, 3, 1]) == [13, 9, 7, 5, 4, 4]
@loom.kernel
def k6(a: loom.array(dtype=int)):
    v0 = a[0]
    v1 = a[1]
    v2 = a[2]
    v3 = a[3]
    if v1 == v3 and v2 < v0:
        return
    v3 = ((v3 - v3) & 1023)
    v0 += ((v0 + v0) & 1023) & 7
    a[9 & 3] += a[v3 & 3] & 255
    if a[v3 & 3] < v1:
        f1 = 0
        while f1 < 3 and a[v1 & 3] <= a[v0 & 3]:
            f1 += 1
            if v1 < v3 <= v0:
                v0 += 3 & 7
                v2, v1 = ((v0 + ((v2 ^ v3) & 1023)) & 1023), v2
            elif 5 != a[v0 & 3]:
                a[v0 & 3] = ((6 - v2) & 1023) & 255
                if 3 != 9:
                    continue
                if v2 <= (v3 if v3 == v3 else v1):
                    v3, v1 = v3, v3
                    a[v0 & 3] ^= v0 & 255
            else:
                if ((((v0 & v1) & 1023) <= 0 or (2 <= a[v1 & 3] or v0 == 9)) and v1 < 7 <= ((v1 * v0) & 1023)):
                    v2 += v3 & 7
                    v3 = ((v2 ^ v2) & 1023)
                    v2 = v2
            v0 += v0 & 7
        else:
            v1 = a[v3 & 3]
        if not (not (1 < v0 <= 5)):
            a[((v1 | v1) & 1023) & 3] ^= 9 & 255
            if v1 < (v2 if v3 < 1 else v1) and not (v0 > ((v2 | v3) & 1023)):
                return
            a[2 & 3] ^= ((((v1 + v3) & 1023) & a[v1 & 3]) & 1023) & 255
        else:
            v1 = a[v3 & 3]
            if a[v0 & 3] == 9:
                for v0 in range(2, 2):
                    v1 += v2 & 7
                    v0 = ((v1 - a[v2 & 3]) & 1023)
                    v3 += v0 & 7
                    v0 += ((v1 - v3) & 1023) & 7
                else:
                    v3 += v1 & 7
                    v2 = v0
                v0 = ((v3 * v1) & 1023)
                a[a[v1 & 3] & 3] = a[v1 & 3] & 255
                v1 = (4 if ((v2 + v0) & 1023) == v2 else v3)
            elif (not ((((v1 - v0) & 1023) < ((v1 | v1) & 1023) and ((v2 & v2) & 1023) <= 5)) and ((v1 - v2) & 1023) < ((v0 & v0) & 1023) <= ((v1 & v3) & 1023)):
                v0 = ((((2 - v1) & 1023) ^ a[v3 & 3]) & 1023)
            else:
                v3 = v0
                v1 += v0 & 7
                v3 = a[v3 & 3]
                a[v0 & 3] = v0 & 255
        v1 = a[v2 & 3]
        v2 = 2
    else:
        a[(v3 if 0 == 2 else v3) & 3] = v2 & 255
        v0 = v2
        a[(v3 if v2 > ((v3 * v1) & 1023) else v0) & 3] = v3 & 255
    a[((v0 ^ v1) & 1023) & 3] ^= ((((v2 + v3) & 1023) ^ v0) & 1023) & 255
    v2 = v0
    v0, v1 = v3, v0
    a[4] = v0 + v1
    a[5] = v2 ^ v3


# run: @k7[1]([3, 1, 4, 4, 6, 0]) == [3, 1, 4, 4, 3, 0]
@loom.kernel
def k7(a: loom.array(dtype=int)):
    v0 = a[0]
    v1 = a[1]
    v2 = a[2]
    v3 = a[3]
    v0 = v1
    v0 += ((v3 | v1) & 1023) & 7
    if v0 == a[v2 & 3] and v1 < v1 <= (v0 if v3 < ((v0 * v0) & 1023) else v1):
        return
    f1 = 0
    while f1 < 4 and (2 != ((v0 ^ v0) & 1023) and v3 != v3):
        f1 += 1
        v0 += ((v3 & v0) & 1023) & 7
    else:
        for v1 in range(5, 0, -1):
            v0 = v1
            v0 += 1 & 7
    a[4] = v0 + v1
    a[5] = v2 ^ v3


# run: @k8[1]([2, 7, 5, 9, 2, 3]) == [2, 7, 5, 9, 9, 2]
@loom.kernel
def k8(a: loom.array(dtype=int)):
    v0 = a[0]
    v1 = a[1]
    v2 = a[2]
    v3 = a[3]
    v2 += ((v1 ^ v3) & 1023) & 7
    if v1 > ((v2 ^ v3) & 1023) and (v1 == ((v3 ^ v2) & 1023) and a[v3 & 3] <= ((v0 + v0) & 1023)):
        return
    if ((v1 + v1) & 1023) != a[v2 & 3]:
        f1 = 0
        while f1 < 3 and 0 > v1:
            f1 += 1
            v3 = ((v1 | 7) & 1023)
        if ((v3 | v1) & 1023) <= v2:
            if ((v0 != ((v0 & v2) & 1023) and v3 < ((v3 | v3) & 1023)) or 2 == 7) and v1 < ((v3 | v2) & 1023) <= 5:
                return
            v1 = (((v3 | v3) & 1023) if a[v3 & 3] < a[v1 & 3] <= v2 else a[v3 & 3])
        if (v3 < (v3 if v0 > v2 else v3) <= a[v1 & 3] and ((v3 | v0) & 1023) != v1) and (8 != v0 or v0 == v2):
            return
    a[4] = v0 + v1
    a[5] = v2 ^ v3


# run: @k9[1]([4, 6, 8, 6, 5, 5]) == [4, 6, 8, 6, 15, 15]
@loom.kernel
def k9(a: loom.array(dtype=int)):
    v0 = a[0]
    v1 = a[1]
    v2 = a[2]
    v3 = a[3]
    v1 = ((1 + v1) & 1023)
    if v3 == ((v0 & v2) & 1023) and (v0 if v3 < v1 else v3) == ((v2 | v0) & 1023):
        return
    for w1 in range(3):
        v1, v3 = (3 if (8 <= ((v1 - v0) & 1023) and (v1 if v2 <= v1 else v2) != v2) else v1), v1
    f2 = 0
    while f2 < 1 and (v2 == ((v2 * v1) & 1023) or v1 <= 6):
        f2 += 1
        if ((v0 - v3) & 1023) != (v3 if 5 < v1 else v0):
            f3 = 0
            while f3 < 4 and v3 < v0 <= v2:
                f3 += 1
                if ((v2 & v3) & 1023) <= ((v0 & v1) & 1023):
                    v2 += v1 & 7
                    v2 += ((v0 | v3) & 1023) & 7
                else:
                    v1 = (8 if ((v3 + v2) & 1023) > 3 else ((a[v2 & 3] * a[v3 & 3]) & 1023))
                    v3 = v3
                    v1 += ((v2 ^ v1) & 1023) & 7
                    v2 += v2 & 7
                for w4 in range(((v2 + v3) & 1023) & 3, v1 & 7, 2):
                    v3 += ((v3 * v3) & 1023) & 7
                if v1 < ((v3 | v2) & 1023) <= ((v1 | v2) & 1023):
                    break
            v2 = v2
            v2 = a[v0 & 3]
        elif v1 == ((v2 + v0) & 1023):
            v1 = 2
            v2 += v3 & 7
        v0 = v1
        v2 = ((9 | v1) & 1023)
    v0 = 8
    a[((v3 - v3) & 1023) & 3] ^= ((((v3 * v0) & 1023) & v3) & 1023) & 255
    a[4] = v0 + v1
    a[5] = v2 ^ v3
