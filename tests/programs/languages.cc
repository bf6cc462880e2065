#include <string>
#include <string_view>
#include <cstdio>
enum class Mode : unsigned char { off, on = 3 };
struct Point { int x; double y; Point(int a, double b): x(a), y(b) {} };
#define N __attribute__((noinline))
N int traced_string(std::string s) { return s.size(); }
N int traced_ref(const std::string &s, int &n) { return s.size() + n; }
N int traced_view(std::string_view v, Mode m) { return v.size() + (int)m; }
N std::string traced_make(int n) { return std::string(n, 'z'); }
N int traced_point(Point p, const Point &q) { return p.x + q.x; }
N Mode traced_mode(bool b) { return b ? Mode::on : Mode::off; }
N int traced_fn(int (*f)(bool)) { return f != nullptr; }
int main() {
  int n = 5;
  traced_string("short"); traced_string("a string that does not fit inside");
  traced_ref("reference", n); traced_view(std::string_view("view of this", 4), Mode::on);
  traced_make(3); traced_make(40); traced_point({1, 2.5}, {3, 4.5}); traced_mode(true); traced_fn((int(*)(bool))traced_mode);
}
