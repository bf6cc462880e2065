extern "C" void deed(int n)
{
	if (n % 2)
		throw n;
}
extern "C" int run(int (*outer)(int), int n)
{
	try {
		return outer(n);
	} catch (int thrown) {
		return -thrown;
	}
}
