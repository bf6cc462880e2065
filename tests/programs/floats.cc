// Prints each call's floats as JSON: arguments and result.
#include <complex>
#include <cstdio>
#define N __attribute__((noinline))

struct Pair { float a, b; };
struct Triple { float x, y, z; };
struct Reals { double a, b; };
struct Mixed { double d; int n; float f; };
struct Three { double v[3]; };
using Complex = std::complex<double>;
typedef double _Complex complex_double;
typedef float _Complex complex_float;

template <class Whole, class Part> static Whole join(Part real, Part imaginary)
{
    Whole joined;
    __real__ joined = real;
    __imag__ joined = imaginary;
    return joined;
}

static void tell(bool b) { printf("%s", b ? "true" : "false"); }
static void tell(int n) { printf("%d", n); }
static void tell(long n) { printf("%ld", n); }
static void tell(float f) { printf("%.9g", f); }
static void tell(double d) { printf("%.17g", d); }
static void tell(long double d) { printf("%.17Lg", d); }
static void tell(char c) { printf("\"%c\"", c); }
static void tell(const char *s) { printf("\"%s\"", s); }
static void tell(Pair p) { printf("{\"a\":%.9g,\"b\":%.9g}", p.a, p.b); }
static void tell(Triple t) { printf("{\"x\":%.9g,\"y\":%.9g,\"z\":%.9g}", t.x, t.y, t.z); }
static void tell(Reals r) { printf("{\"a\":%.17g,\"b\":%.17g}", r.a, r.b); }
static void tell(Mixed m) { printf("{\"d\":%.17g,\"n\":%d,\"f\":%.9g}", m.d, m.n, m.f); }
static void tell(Three t) { printf("{\"v\":[%.17g,%.17g,%.17g]}", t.v[0], t.v[1], t.v[2]); }
static void tell(complex_double c) { printf("{\"re\":%.17g,\"im\":%.17g}", __real__ c, __imag__ c); }
static void tell(complex_float c) { printf("{\"re\":%.9g,\"im\":%.9g}", __real__ c, __imag__ c); }
static void tell(Complex c) { printf("{\"_M_value\":"); tell(c.__rep()); printf("}"); }
static void tell_all() {}
template <class First, class... Rest> static void tell_all(First first, Rest... rest)
{
    tell(first);
    if (sizeof...(rest)) printf(",");
    tell_all(rest...);
}
template <class Result, class... Args> static void show(const char *name, Result r, Args... args)
{
    printf("{\"name\":\"%s\",\"args\":[", name);
    tell_all(args...);
    printf("],\"result\":");
    tell(r);
    printf("}\n");
}

// Each calculates without calls, so that optimised code stores nothing by accident.
N double traced_one(double r) { return r * 3.25; }
N float traced_single(float f) { return f + 1; }
N double traced_mixed(int a, float b, long c, double d, const char *s, char e)
{
    return a + b + c + d + s[0] + e;
}
N static double traced_static(double a, int b, float c) { return a - b - c; }
N double traced_pair(Pair p, float w) { return p.a * p.b + w; }
N Pair traced_swap(Pair p) { return {p.b, p.a}; }
N double traced_triple(Triple t, int a, int b, int c, double w) { return t.x + t.y * a + t.z * b + c + w; }
N Triple traced_turn(Triple t, float k) { return {t.z * k, t.x, t.y}; }
N double traced_reals(Reals r, Reals s) { return r.a * s.a + r.b * s.b; }
N Reals traced_real(double a, double b) { return {b, a}; }
N double traced_struct(Mixed m, double x, long k, long l, long n) { return m.d + m.n + m.f + x + k + l + n; }
N Mixed traced_made(double d, int n, float f) { return {d, n, f}; }
N double traced_large(Three t, double x) { return t.v[0] + x; }
N double traced_many(double a, double b, double c, double d, double e, double f, double g, double h, double i, float j)
{
    return a + b + c + d + e + f + g + h + i + j;
}
N double traced_long(long double l, double x) { return l + x; }
N long double traced_wide(double x) { return x; }
N double traced_complex(complex_double z, double w) { return __real__ z + w; }
N float traced_complexf(complex_float z, float w) { return __imag__ z + w; }
N double traced_cpp(Complex z, double w) { return __imag__ z.__rep() + w; }
N double traced_switch(int op, double a, double b)
{
    switch (op) {
    case 0: return a + b;
    case 1: return a - b;
    case 2: return a * b;
    case 3: return a / b;
    case 4: return a * a;
    case 5: return b * b;
    }
    return a;
}
N double traced_while(double x, int n)
{
    while (n-- > 0) x *= 1.5;
    return x;
}
N double traced_loop(double x)
{
    do x *= 0.5; while (x > 1);
    return x;
}
N double traced_again(int n, double x)
{
again:
    switch (n) {
    case 0: n = 3; x += 1; goto again;
    case 1: return x;
    case 2: n = 1; goto again;
    case 3: n = 4; x += 2; goto again;
    case 4: n = 2; goto again;
    case 5: n = 0; goto again;
    }
    return -x;
}
N double traced_array(int n, double x)
{
    double a[n];
    a[n - 1] = x;
    return a[n - 1];
}
N double traced_factorial(double n) { return n < 1 ? 1 : n * traced_factorial(n - 1); }
N bool traced_positive(double x) { return x > 0; }
N double traced_half(int n) { return n * 0.5; }
struct Shape {
    double side;
    N double traced_area(double k) const { return side * side * k; }
    N static float traced_scale(float a, double b) { return a * b; }
    virtual double traced_virtual(double q) { return side + q; }
};
template <class T> N T traced_template(T a, T b) { return a * b; }
N double traced_thrown(double x)
{
    if (x > 2) throw x;
    return x;
}

#define SHOW(name, ...) show(#name, name(__VA_ARGS__), __VA_ARGS__)

int main()
{
    for (double x : {0.0, 2.0, -1.5, 1e300, 1.0 / 3, 5e-324}) {
        SHOW(traced_one, x);
        SHOW(traced_reals, Reals({x, 2}), Reals({3, 4}));
        SHOW(traced_real, x, -x);
        SHOW(traced_positive, x);
    }
    SHOW(traced_single, 2.1f);
    SHOW(traced_mixed, 1, 2.5f, 3L, 4.75, "text", 'c');
    SHOW(traced_static, 1.5, 2, 3.25f);
    SHOW(traced_pair, Pair({1.25f, 2.5f}), 3.5f);
    SHOW(traced_swap, Pair({1.25f, -2.5f}));
    SHOW(traced_triple, Triple({1, 2.5f, 3}), 4, 5, 6, 7.5);
    SHOW(traced_turn, Triple({1, 2.5f, 3}), 0.5f);
    SHOW(traced_struct, Mixed({1.5, 2, 3.5f}), 4.25, 5L, 6L, 7L);
    SHOW(traced_made, 1.5, 2, 3.5f);
    SHOW(traced_large, Three({{1.5, 2.5, 3.5}}), 4.5);
    SHOW(traced_many, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.5, 10.25f);
    SHOW(traced_long, 1.25L, 2.5);
    SHOW(traced_wide, 6.5);
    SHOW(traced_complex, join<complex_double>(1.5, -2.5), 3.5);
    SHOW(traced_complexf, join<complex_float>(1.5f, -2.5f), 3.5f);
    SHOW(traced_cpp, Complex(1.5, -2.5), 3.5);
    for (int op = 0; op < 7; op++) SHOW(traced_switch, op, 7.5, 2.25);
    SHOW(traced_while, 2.5, 3);
    SHOW(traced_loop, 10.5);
    SHOW(traced_again, 5, 1.5);
    SHOW(traced_array, 4, 1.25);
    for (int n = 0; n < 3; n++) SHOW(traced_half, n);
    Shape shape;
    shape.side = 3;
    show("Shape::traced_area", shape.traced_area(2.5), 2.5);
    show("Shape::traced_scale", Shape::traced_scale(1.5f, 2.5), 1.5f, 2.5);
    show("Shape::traced_virtual", shape.traced_virtual(1.25), 1.25);
    show("traced_template<float>", traced_template(1.5f, 2.5f), 1.5f, 2.5f);
    show("traced_template<double>", traced_template(1e300, 1e-300), 1e300, 1e-300);
    SHOW(traced_thrown, 1.5);
    SHOW(traced_factorial, 3.0);
    try {
        traced_thrown(2.5);
    } catch (double thrown) {
        show("traced_thrown", thrown, thrown);
    }
}
