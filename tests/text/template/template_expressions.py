"""template_expressions.py: short expressions, one a line, by what they are about; template_cases.py makes a
case of each. V is what they are given."""

V = {"s": "Straße ΟΔΟΣ İstanbul ﬁn ²x １２", "xs": [3, 1, 2], "n": 7, "f": 2.675, "z": None, "b": True, "e": "",
     "d": {"b": 2, "a": "x", "n": {"k": [True, 1.0, None]}}, "m": [{"role": "user", "n": 2}, {"role": "tool", "n": 1}, {"role": "user"}],
     "w": " \u00a0\u3000a b\u2003c\u2028d\u200be\n", "html": "<p class=\"x\">Tom & 'Jerry'</p>"}

TEXTS = {
    "cases": r"""
{{ s | upper }}|{{ s.upper() }}
{{ s | lower }}|{{ s.lower() }}
{{ s | title }}|{{ s.title() }}
{{ s | capitalize }}|{{ s.swapcase() }}
{{ s.casefold() }}|{{ 'ẞßſﬀΐᾳᏸꭰς'.casefold() }}
{{ 'ΟΔΟΣ'.lower() }} {{ 'ΑΣ Σ ΣΑ'.lower() }} {{ "ΑΣ'".lower() }} {{ "ΑΣ'Α".lower() }} {{ 'Α.Σ'.lower() }}
{{ 'ΑΣ' | title }} {{ 'ΟΔΟΣ ΑΣ' | title }} {{ 'ΟΔΟΣ'.title() }} {{ 'ΣΑΣ' | capitalize }} {{ 'οδός'.swapcase() }} {{ 'ΟΔΌΣ'.swapcase() }}
{{ 'ﬁx ßa ŉa ǰ ΐ ﬃ' | title }} {{ 'ﬁx ßa ŉa ǰ ΐ ﬃ'.title() }} {{ 'ﬁx' | capitalize }} {{ 'ßa'.capitalize() }} {{ 'ﬀ' | upper }}
{{ 'ǆ ǅ Ǆ'.upper() }} {{ 'ǆ ǅ Ǆ'.lower() }} {{ 'ǆ ǅ Ǆ'.title() }} {{ 'ǅ'.istitle() }} {{ 'ǅ'.isupper() }} {{ 'ǅ'.islower() }} {{ 'ǅ'.swapcase() }}
{{ 'İIıi'.lower() }} {{ 'İIıi'.upper() }} {{ 'İ'.lower() | length }} {{ 'İ'.swapcase() | length }} {{ 'İSTANBUL' | capitalize }}
{{ 'ა'.upper() }} {{ 'აბ'.title() }} {{ 'Ა'.lower() }} {{ 'აბ' | capitalize }} {{ 'Ꭰ'.lower() }} {{ 'ꭰ'.upper() }}
{{ 'ªº'.upper() }} {{ 'ªº'.islower() }} {{ 'ⓐ'.upper() }} {{ 'ⅷ'.upper() }} {{ 'ⅷ'.islower() }} {{ 'ʰ'.islower() }}
{{ "o'neil's it’s a-b c.d x_y 1st" | title }} {{ "o'neil's it’s a-b c.d x_y 1st".title() }}
{{ 'a\tb\nc(d)e{f}g[h]i<j>k-l' | title }} {{ 'éa çb' | title }} {{ '(ß)' | title }}
{{ 'A\u0301Σ'.lower() }} {{ 'A\u00adΣ'.lower() }} {{ 'A:Σ'.lower() }} {{ 'A·Σ'.lower() }} {{ 'A-Σ'.lower() }} {{ 'AΣ\u0301B'.lower() }}
{{ s is lower }} {{ 'ß' is lower }} {{ 'ﬁ' is lower }} {{ 'İ' is upper }} {{ '²' is lower }} {{ 12 is lower }} {{ 'ΑΒ1' is upper }}
{{ ['É', 'e', 'Z', 'a', 'ß', 'ss', 'ΟΣ', 'ος'] | sort }} {{ ['ΟΣ', 'ος', 'οσ'] | unique | list }}
{{ 'Hello World Foo_Bar'.istitle() }} {{ "It'S".istitle() }} {{ 'A1b'.istitle() }} {{ '1'.istitle() }} {{ 'ÀB'.istitle() }} {{ 'ßa'.istitle() }}
""",
    "classes": r"""
{{ ['²'.isdigit(), '²'.isdecimal(), '²'.isnumeric(), '½'.isdigit(), '½'.isnumeric(), '五'.isnumeric(), '五'.isalpha(), 'Ⅷ'.isnumeric(), 'Ⅷ'.isalpha()] }}
{{ ['１２'.isdigit(), '１２'.isdecimal(), '٣'.isdecimal(), '१२'.isdigit(), '1.2'.isdigit(), '-1'.isdigit(), ''.isdecimal(), '①'.isdigit(), '𝟙'.isdecimal()] }}
{{ ['é'.isalpha(), 'ß'.isalpha(), '日本'.isalpha(), 'ा'.isalpha(), 'ʼ'.isalpha(), '_'.isalpha(), 'ﬁ'.isalpha(), '\u0301'.isalpha(), '한글'.isalpha(), '🙂'.isalpha()] }}
{{ ['a1'.isalnum(), '²a'.isalnum(), '½'.isalnum(), 'a b'.isalnum(), '日1'.isalnum(), 'a_'.isalnum(), ''.isalnum()] }}
{{ ['\u00a0'.isspace(), '\u2003\u3000'.isspace(), '\u200b'.isspace(), '\x1f'.isspace(), '\x85'.isspace(), '\u2028'.isspace(), ' a'.isspace(), '\ufeff'.isspace()] }}
{{ ['\u00ad'.isprintable(), 'é'.isprintable(), '\u00a0'.isprintable(), '\u0378'.isprintable(), '\ue000'.isprintable(), '🙂'.isprintable(), ''.isprintable()] }}
{{ ['a_1'.isidentifier(), '1a'.isidentifier(), 'é'.isidentifier(), '²'.isidentifier(), 'a²'.isidentifier(), ''.isidentifier(), 'a b'.isidentifier(), '日本'.isidentifier(), 'class'.isidentifier()] }}
{{ ['abc'.isascii(), 'é'.isascii(), ''.isascii(), 'aB'.islower(), 'a1'.islower(), '1'.islower(), 'AB'.isupper(), 'A1'.isupper()] }}
{{ ['a\u00adb\u200bc\u0378\ue000\U000e0041é日🙂'] }}
{{ 'one two_three fo’ur ²½ 日本語 a-b' | wordcount }} {{ '' | wordcount }} {{ 'e\u0301a' | wordcount }}
{% set größe = 1 %}{{ größe }}{{ 名 }}{{ größe2 is defined }}
{{ ² }}
{{ “quoted” }}
{{ a² }}
{{ n }}
""",
    "numbers": r"""
{{ ['１２' | int, '٣٤' | int, '१२' | int, '𝟙𝟚' | int, ' ７ ' | int, '-５' | int, '+３' | int, '²' | int(9), '½' | int(9), '1２' | int] }}
{{ ['１.５' | float, '٣.٥' | float, '１e２' | float, '²' | float(9), '١٢' | float, '\u00a01.5\u3000' | float] }}
{{ ['1_000' | int, '1__0' | int(9), '_1' | int(9), '1_' | int(9), '0_0' | int(9), '1_0.5' | float, '1_.5' | float(9), '1_e5' | float(9), '1e1_0' | float] }}
{{ ['0x1f' | int(0, 16), '0b11' | int(0, 2), '0o17' | int(0, 8), '1f' | int(0, 16), 'zz' | int(0, 36), '0x1f' | int(9), '12' | int(9, 2), '0x1f' | int(0, 0)] }}
{{ ['42.9' | int, '-42.9' | int, '1e3' | int, 'inf' | int(9), 'nan' | int(9), '' | int, none | int(9), [] | int(9), true | int, 3.99 | int] }}
{{ ['inf' | float, '-Infinity' | float, 'nan' | float | string, '1e400' | float, '.5' | float, '5.' | float, '1e' | float(9), '0x1p3' | float(9), '++1' | float(9), 'in_f' | float(9)] }}
{{ ('0' * 200 ~ '5') | int }} {{ ('0.' ~ '0' * 150 ~ '1') | float }} {{ ('1' * 100) | float }} {{ ('0' * 300 ~ '１.5') | float }}
{{ [2.675 | round(2), 2.5 | round, 3.5 | round, -2.5 | round, 1e22 | round(2), 1234.567 | round(-2), 1234 | round(-2), 5 | round(2), 0.1 | round(20)] }}
{{ [2.1 | round(0, 'ceil'), -2.1 | round(0, 'ceil'), 2.19 | round(1, 'floor'), -2.11 | round(1, 'floor'), 7 | round(0, 'ceil'), 15 | round(-1, 'floor'), 2.5 | round(method='floor')] }}
{{ [1e16, 1e15 + 0.5, 123456789.123456789, 1e-5, 0.0001, 1.0, -0.0, 1e100, 5e-324, 2.0 ** 60, 1 / 3, 100 / 10, 1e22, 9007199254740993.0] }}
{{ [7 // 2, -7 // 2, 7 // -2, 7 % -3, -7 % 3, 7.5 // 2, -7.5 % 2, 0.1 + 0.2, 2 ** 10, 2 ** -2, 2 ** 0.5, 10 / 4, 6 / 3, 1e308 * 10] }}
{{ 5 % 0 }}
{{ 5 // 0.0 }}
{{ 2 ** 3 ** 2 }} {{ -3 ** 2 }} {{ (-3) ** 2 }} {{ 2 * 3 + 4 }} {{ 2 + 3 * 4 }} {{ 10 - 4 - 3 }} {{ 2 * 3 % 4 }} {{ +5 }} {{ - -5 }} {{ --5 }}
{{ true + true }} {{ true * 3 }} {{ -true }} {{ 1 == true }} {{ 0 == false }} {{ 1 in [true] }} {{ {1: 'a'}[true] }} {{ 1.0 in [1] }} {{ [1, 1.0, true] | unique | list }}
{{ '%d|%5d|%-5d|%05d|%+d|% d|%x|%X|%o|%#x|%#o|%i|%u' % (42, 42, 42, 42, 42, 42, 255, 255, 8, 255, 8, 3.9, 7) }}
{{ '%f|%.2f|%8.3f|%-8.1f|%08.2f|%+.1f|%e|%.3E|%g|%.3g|%G' % (1.5, 2.675, 3.14159, 2.25, -1.5, 2.0, 12345.678, 0.00012, 1e10, 1234.5, 1e-10) }}
{{ '%s|%r|%10s|%-10s|%.2s|%a|%c|%c|%5.1s|%%' % ('é', 'é', 'ab', 'ab', 'abc', 'é', 'x', 233, 'xyz') }}
{{ '%(a)s %(b)05.1f %(a)r' % {'a': 'x', 'b': 2.25} }} {{ '%s' % [1, 2] }} {{ '%s' % none }} {{ '%s %s' % (1, [2]) }} {{ '%*d' % (5, 42) }}
{{ '%d' % 'x' }}
{{ '%s %s' % (1,) }}
{{ '%s' % (1, 2) }}
{{ '{:d}|{:5d}|{:<5d}|{:^5d}|{:05d}|{:+d}|{:,}|{:_}|{:x}|{:#x}|{:b}|{:o}|{:X}|{:c}|{: d}|{:=+6d}'.format(42, 42, 42, 42, 42, 42, 1234567, 1234567, 255, 255, 5, 8, 255, 65, 3, 7) }}
{{ '{:f}|{:.2f}|{:8.3f}|{:<8.1f}|{:+.1e}|{:g}|{:.3g}|{:%}|{:.1%}|{:,.2f}|{}|{:.0f}|{:G}|{:010.3f}'.format(1.5, 2.675, 3.14159, 2.25, 12345.678, 1e10, 1234.5, 0.5, 0.1234, 1234567.891, 1e16, 2.5, 1e-10, -3.14159) }}
{{ '{:s}|{:>5}|{:*^7}|{:.2}|{!r}|{!s:>4}|{!a}|{:<6s}|{:日>3}'.format('a', 'b', 'c', 'def', 'é', 'x', 'é', 'q', 'z') }}
{{ '{0} {1} {0}'.format('a', 'b') }} {{ '{a[k]} {a[n][0]} {b[1]}'.format(a={'k': 1, 'n': [5]}, b=[7, 8]) }} {{ '{:{}}|{:{w}.{p}f}'.format('x', 4, 2.5, w=7, p=2) }} {{ '{{}} {}'.format(none) }}
{{ '{} {}'.format(1) }}
{{ '{a}'.format(b=1) }}
{{ '{:d}'.format(1.5) }}
{{ '{:z}'.format('a') }}
{{ '%s items' | format(3) }} {{ '%(a)d' | format(a=3) }} {{ '%s' | format }}
{{ [5 | abs, -5.5 | abs, true | abs, -0.0 | abs] }} {{ [1, 2.5, true] | sum }} {{ [[1], [2]] | sum(start=[]) }} {{ xs | sum(start=0.5) }} {{ m | sum(attribute='n') }}
{{ [1 < 2 < 3, 3 > 2 > 2, 1 < 3 > 2, 'a' < 'B', 'Z' < 'a', [1, 2] < [1, 3], (1,) < (1, 0), 1 == 1.0 == true, 'é' > 'z'] }}
{{ 1 < none }}
{{ [1] < (2,) }}
{{ [9223372036854775807, -9223372036854775807 - 1, 9223372036854775807 // 3, 4611686018427387904 * 2 - 1 if false else 0] }}
{{ [1_000, 0x1F, 0o17, 0b101, 1e3, 1.5e-3, 1E+2, 10.0e0] }} {{ xs.0 }} {{ xs[-1] }} {{ [n, -n, not n] }}
{{ 3 is divisibleby(1.5) }}
{{ [3 is odd, -3 is odd, 0 is even, 2.0 is even, true is odd, 4 is divisibleby 2, 7 is divisibleby(num=7)] }}
{{ 'x' is odd }}
""",
    "methods": r"""
{{ [w.strip(), w.lstrip(), w.rstrip(), w.split(), w | trim] }}
{{ ['xxaxx'.strip('x'), 'abcba'.strip('ab'), 'abcba'.lstrip('ab'), 'abcba'.rstrip('ab'), '日本日'.strip('日'), ' a '.strip(none), 'aé'.strip('é'), 'a'.strip('')] }}
{{ ['a,b,c'.split(','), 'a,b,c'.split(',', 1), 'a,b,c'.rsplit(',', 1), 'a,b,c'.split(',', maxsplit=1), ' a  b '.split(' '), 'a b c'.split(none, 1), ' a b c '.rsplit(none, 1), ' a b c '.split(maxsplit=1)] }}
{{ ['a--b'.split('--'), 'abc'.split('x'), ''.split(), ''.split(','), 'a\u2003b\u00a0c'.split(), 'aXbXc'.rsplit('X', 5), 'aaa'.split('aa'), 'aaa'.rsplit('aa')] }}
{{ 'abc'.split('') }}
{{ ['a\nb\r\nc\rd\x0be\x0cf\x1cg\x85h\u2028i'.splitlines(), 'a\n\nb\n'.splitlines(true), ''.splitlines(), '\n'.splitlines(), 'a\r\n'.splitlines(keepends=true)] }}
{{ ['abc'.startswith('a'), 'abc'.startswith(('x', 'a')), 'abc'.startswith('b', 1), 'abc'.startswith('b', 1, 1), 'abc'.startswith(''), 'abc'.startswith('', 4), 'abc'.endswith('c'), 'abc'.endswith('b', 0, 2), 'abc'.endswith(('x', 'bc')), 'abc'.startswith(())] }}
{{ 'abc'.startswith(['a']) }}
{{ ['abcabc'.find('c'), 'abcabc'.find('c', 3), 'abcabc'.rfind('a'), 'abc'.find('z'), '日本語日'.rfind('日'), 'abc'.find(''), 'abc'.rfind(''), 'abc'.find('', 9), 'abc'.index('b', -2), 'aXbX'.count('X'), 'aaaa'.count('aa'), 'abc'.count('', 1)] }}
{{ 'abc'.index('z') }}
{{ ['aaa'.replace('a', 'b', 2), 'aaa'.replace('aa', 'b'), 'abc'.replace('', '-'), 'abc'.replace('', '-', 2), 'abc'.replace('b', ''), ''.replace('', 'x'), 'aaa'.replace('a', 'b', -1), 'aaa'.replace('a', 'b', 0)] }}
{{ 'aaa' | replace('a', 'b', 2) }} {{ 12321 | replace(2, 'x') }} {{ 'abc' | replace('', '.') }} {{ 'aaa' | replace('a', 'b', count=1) }} {{ none | replace('None', 'x') }}
{{ ['ab'.center(5), 'ab'.center(6, '*'), 'abc'.center(6, '*'), 'abc'.center(2), 'é'.ljust(3, '.'), 'é'.rjust(3, '日'), '42'.zfill(5), '-42'.zfill(5), '+4'.zfill(4), 'é'.zfill(3), ''.zfill(2)] }}
{{ ['a=b=c'.partition('='), 'a=b=c'.rpartition('='), 'abc'.partition('='), 'abc'.rpartition('='), '=a'.partition('=')] }}
{{ ['prefix-a'.removeprefix('prefix-'), 'a.txt'.removesuffix('.txt'), 'abc'.removeprefix(''), 'abc'.removesuffix(''), 'aa'.removeprefix('aaa')] }}
{{ ', '.join(['a', 'b']) }} {{ ''.join([]) }} {{ '-'.join('日本語') }} {{ '-'.join({'a': 1, 'b': 2}) }} {{ ','.join(xs | map('string')) }} {{ '/'.join(('x',)) }}
{{ ','.join([1, 2]) }}
{{ 'a\tbc\td'.expandtabs() }}|{{ 'a\tb\n\tc'.expandtabs(4) }}|{{ '\t日\t'.expandtabs(3) }}|{{ 'a\tb'.expandtabs(tabsize=0) }}
{{ '{a} {b[0]}'.format_map({'a': 1, 'b': [2]}) }}
{{ "abc".upper is callable }}
{{ 'abc'.nosuch is defined }} {{ 'abc'.nosuch() }}
{{ 'abc'.upper(1) }}
{{ [d.get('a'), d.get('zz'), d.get('zz', 5), d.get('n').k, d['n']['k'][1], d.keys() | list, d.values() | list, d.items() | list, d | length, 'a' in d, 'zz' not in d, d.get(none)] }}
{{ d.copy() }} {{ xs.copy() }} {{ xs.index(1) }} {{ xs.count(1) }} {{ (1, 2, 1).count(1) }} {{ (1, 2).index(2) }} {{ range(5).index(3) }} {{ range(5).count(9) }}
{{ xs.index(9) }}
{{ d.update({'q': 1}) }}
{{ xs.sort() }}
{{ d.items() }} {{ d.keys() }} {{ {}.values() }} {{ dict(a=1).items() }} {{ d.keys() | length }} {{ 'a' in d.keys() }} {{ ('a', 'x') in d.items() }} {{ 2 in d.values() }}
{{ n.bit_length() }}
{{ f.is_integer() }} {{ 2.0.is_integer() }}
{{ 'a' 'b' "c" }} {{ 'a' ~ 1 ~ 2.0 ~ none ~ true ~ [1, 'x'] ~ {'k': 'v'} }} {{ 'ab' * 2 }} {{ 2 * 'ab' }} {{ 'ab' * -1 }} {{ [1] * 2 + [3] }} {{ (1,) + (2,) }}
{{ 'a' + 1 }}
{{ [1] + (2,) }}
{{ 'it\'s' ~ "q\"q" ~ 'tab\there' ~ 'nl\\n' ~ '\x41\u00e9\U0001F642\101\0' | length }}
""",
    "slices": r"""
{{ ['hello'[1:3], 'hello'[:-1], 'hello'[::-1], 'hello'[::2], 'hello'[-3:], 'hello'[5:], 'hello'[9:], 'hello'[-9:2], 'hello'[3:1], 'hello'[4:0:-2], 'hello'[:0:-1], 'hello'[::-3]] }}
{{ ['日本語テキスト'[2:4], '日本語テキスト'[::-1], 'é🙂x'[1], 'é🙂x'[-1], 'é🙂x'[1:], 'e\u0301'[0]] }}
{{ [xs[1:], xs[::-1], xs[:99], xs[-2:], xs[none:2], xs[0:0], (1, 2, 3)[1:], (1, 2, 3)[::-1], range(10)[2:8:3] | list, range(10)[::-1] | list, range(5)[-1]] }}
{{ 'hello'[::0] }}
{{ [range(4)[5:-100], range(4)[-1:-2:2], range(9)[::100], range(0, 9, 2)[1:3], range(9)[::-2], range(9)[7:2:-100]] }}
{{ d[1:] }}
{{ 5[0] is defined }} {{ none[0] is defined }} {{ 'abc'[7] is defined }} {{ xs[9] is defined }} {{ xs['a'] is defined }} {{ d[0] is defined }} {{ d.a[0] }} {{ d['n'].k[-1] }}
{{ xs[true] }} {{ xs[1.0] is defined }} {{ 'abc'[b] }} {{ xs[n - 7] }} {{ xs[xs[1]] }} {{ m[0]['ro' ~ 'le'] }} {{ m[-1].n is defined }} {{ (m | first).role }}
{{ xs[:b] }} {{ 'abc'['1' | int:] }} {{ 'abc'[:'x' | length] }} {{ xs[z:] }}
{{ s['x':] }}
{{ m[1:][0].role }} {{ m[::-1] | map(attribute='role') | list }} {{ m[:-1] | length }} {{ (m | list)[-1].role }} {{ (xs | sort)[0] }} {{ ('a b c'.split())[1:] | join('+') }}
""",
    "filters": r"""
{{ html | e }} {{ html | escape }} {{ html | safe }} {{ (html | e) | e }} {{ html | forceescape | forceescape }} {{ ('<' | safe) ~ '>' }} {{ '<' | e ~ '&' }}
{{ xs | tojson }} {{ 'é<>&\'"\u2028\x00\x7f🙂' | tojson }} {{ 'é🙂' | tojson(ensure_ascii=true) }} {{ [1.0, 1e16, 1e-7, none, true] | tojson }} {{ {'a': (1, 2), 3: none} | tojson }}
{{ d | tojson(indent=2) }} {{ [] | tojson(indent=2) }} {{ [[], {}] | tojson(indent=1) }} {{ {'b': 1, 'a': [1]} | tojson(indent=0, sort_keys=true) }} {{ {'a': 1} | tojson(separators=(',', ':')) }}
{{ missing | tojson }}
{{ range(3) | tojson }}
{{ xs | map('string') | tojson }}
{{ 'inf' | float | tojson }} {{ [-0.0, 'nan' | float] | tojson }} {{ '-inf' | float | tojson }}
{{ missing | default('a') }} {{ none | default('a') }} {{ none | default('a', true) }} {{ '' | d('x', boolean=true) }} {{ d.q | default(d.a) }} {{ d.q.r | default('x') if d.q is defined else 'y' }}
{{ d.q.r | default('x') }}
{{ [xs | first, xs | last, 'é日' | first, 'é日' | last, d | first, [] | first is defined, d | last, range(3) | last] }}
{{ xs | join }} {{ xs | join(', ') }} {{ m | join('|', attribute='role') }} {{ [1, none, true, 'x'] | join('-') }} {{ 'abc' | join(',') }} {{ d | join(',') }} {{ [] | join(',') }} {{ [['a'], 1.5] | join(d='/') }}
{{ [3, 1, 2] | sort }} {{ ['b', 'A', 'a', 'B'] | sort }} {{ ['b', 'A'] | sort(case_sensitive=true) }} {{ m | selectattr('n') | sort(attribute='n') | map(attribute='n') | list }} {{ xs | sort(reverse=true) }} {{ d | sort }} {{ 'hello' | sort | join }}
{{ m | sort(attribute='role,n') | length }}
{{ [1, 'a'] | sort }}
{{ d | dictsort }} {{ {'B': 1, 'a': 2} | dictsort }} {{ {'B': 1, 'a': 2} | dictsort(true) }} {{ {'x': 2, 'y': 1} | dictsort(by='value') }} {{ {'x': 2, 'y': 1} | dictsort(false, 'key', true) }}
{{ xs | reverse | list }} {{ 'é日x' | reverse }} {{ d | reverse | list }} {{ (1, 2) | reverse | list }} {{ range(3) | reverse | list }}
{{ ['a', 'A', 'b', 'a'] | unique | list }} {{ ['a', 'A'] | unique(case_sensitive=true) | list }} {{ m | unique(attribute='role') | map(attribute='role') | list }} {{ [[1], [1]] | map('join') | unique | list }}
{{ m | groupby('role') | map('first') | list }} {% for r, g in m | groupby('role') %}{{ r }}:{{ g | length }};{% endfor %} {{ m | groupby('n', default=0) | map(attribute='grouper') | list }} {{ ['a', 'B', 'A'] | groupby(0) | map('first') | list }}
{{ m | map(attribute='role') | list }} {{ m | map(attribute='n', default=0) | list }} {{ ['a', 'b'] | map('upper') | list }} {{ ['1', 'x'] | map('int', default=9) | list }} {{ [[1, 2], [3]] | map('sum') | list }} {{ xs | map('string') | map('length') | list }} {{ ['a-b'] | map('replace', '-', '+') | first }}
{{ xs | select('gt', 1) | list }} {{ xs | select('odd') | list }} {{ xs | reject('odd') | list }} {{ ['', 'a', none] | select | list }} {{ ['', 'a'] | reject | list }} {{ ['a', 1] | select('string') | list }} {{ xs | select('in', [1, 2]) | list }} {{ xs | select('equalto', 1) | list }}
{{ m | selectattr('role', 'equalto', 'user') | list | length }} {{ m | selectattr('n', 'defined') | list | length }} {{ m | rejectattr('n', 'defined') | map(attribute='role') | first }} {{ m | selectattr('role', '==', 'tool') | map(attribute='n') | first }} {{ m | selectattr('role', 'in', ['tool', 'x']) | list | length }} {{ m | rejectattr('role', 'eq', 'user') | list }}
{{ xs | map('nosuch') | list }}
{{ xs | select('nosuch') | list }}
{{ xs | batch(2) | list }} {{ xs | batch(2, 0) | list }} {{ xs | slice(2) | list }} {{ range(7) | slice(3, 'x') | map('list') | list }} {{ [] | batch(2) | list }} {{ xs | batch(1) | map('first') | list }}
{{ [xs | min, xs | max, ['b', 'A'] | min, ['b', 'A'] | max, ['b', 'A'] | min(case_sensitive=true), [] | min is defined, m[:2] | max(attribute='n')] }}
{{ 'a b\nc' | indent }}|{{ 'a\n\nb' | indent(2) }}|{{ 'a\n\nb' | indent(2, true) }}|{{ 'a\n\nb' | indent(2, blank=true) }}|{{ 'a\nb' | indent('--') }}|{{ '' | indent(first=true) }}|{{ 'a\r\nb' | indent(1) }}
{{ 'The quick brown fox jumps' | truncate(12) }}|{{ 'The quick brown fox jumps' | truncate(12, true) }}|{{ 'The quick' | truncate(8) }}|{{ 'The quick brown' | truncate(10, false, '…', 0) }}|{{ '日本語テキストです' | truncate(5, true, '', 0) }}|{{ 'abcdefghij' | truncate(5, leeway=0) }}
{{ 'a b/c?d=é&f' | urlencode }} {{ {'a b': 'c d', 'e': 1} | urlencode }} {{ [('a', 'b&c'), ('d', 2)] | urlencode }} {{ 5 | urlencode }}
{{ 1000 | filesizeformat }} {{ 1 | filesizeformat }} {{ 123456789 | filesizeformat }} {{ 123456789 | filesizeformat(true) }} {{ '2048' | filesizeformat(binary=true) }} {{ 1e15 | filesizeformat }} {{ 999 | filesizeformat }} {{ 0 | filesizeformat }}
{{ 'x' | center(7) }}| {{ 'x' | center(width=4) }}| {{ 5 | string | length }} {{ 'ab' | list }} {{ d | list }} {{ 5.0 | string }} {{ [1, 'a'] | string }} {{ none | string }} {{ true | string | lower }}
{{ d | items | list }} {{ missing | items | list }} {{ d | attr('get') is callable }} {{ d | attr('zz') is defined }} {{ d | count }} {{ 'é日' | length }} {{ (1, 2) | length }} {{ {} | length }}
{{ 5 | length }}
{{ none | length }}
{{ 5 | items | list }}
{{ none | upper }} {{ 5 | upper }} {{ true | lower }} {{ missing | upper }}| {{ missing | trim }}| {{ missing | length }} {{ missing | list }} {{ missing | join }}| {{ none | trim }} {{ 'xxaxx' | trim('x') }}
{{ 'abc' | upper | lower | title | reverse | list | join('.') | length }}
{{ xs | upper(1) }}
{{ xs | join(1, 2, 3) }}
{{ [[1, 2]] | map(attribute='１') | list }} {{ [[1, 2]] | map(attribute=0) | list }} {{ [[[5, 6]]] | map(attribute='0.1') | first }} {{ [{'²a': 3}] | map(attribute='²a') | list }}
{{ [[1, 2, 3]] | map(attribute='²') | list }}
{{ xs | truncate(5) }} {{ d | truncate(3) }}
{% set a = d | fromjson if d is string else d %}{% for k, v in a|items %}{{ k }}={{ v | tojson(ensure_ascii=False) | safe if v is mapping or (v is sequence and v is not string) else v | string }};{% endfor %}
{{ s | fromjson if s is mapping else '-' }}{% if s is mapping %}{{ s | fromjson | nosuch(1) is nosuch }}{% include 'a' %}{% endif %}
{{ 1 | nosuch if false else 2 }} {{ 'a' if true else ('b' | nosuch) }}
""",
    "tests": r"""
{{ [missing is defined, d.a is defined, d.q is defined, none is defined, missing is undefined, none is none, 0 is none, missing is none, false is defined] }}
{{ ['a' is string, 1 is string, none is string, [] is string, 1 is number, 1.5 is number, true is number, '1' is number, 1 is integer, true is integer, 1.0 is integer, 1.0 is float, 1 is float] }}
{{ [true is boolean, 1 is boolean, none is boolean, true is true, 1 is true, false is false, 0 is false, missing is false] }}
{{ [{} is mapping, [] is mapping, 'a' is mapping, [] is sequence, 'a' is sequence, {} is sequence, (1,) is sequence, 1 is sequence, none is sequence, range(1) is sequence, missing is sequence, d.items() is sequence] }}
{{ ['a' is iterable, [] is iterable, {} is iterable, 1 is iterable, none is iterable, missing is iterable, range(1) is iterable, (xs | map('string')) is iterable] }}
{{ [range is callable, 'a'.upper is callable, 1 is callable, d.get is callable, missing is callable, dict is callable, namespace is callable, cycler is callable] }}
{{ [1 is eq 1, 1 is equalto 1, 1 is ne 2, 1 is lt 2, 1 is lessthan 2, 2 is gt 1, 2 is greaterthan 1, 1 is le 1, 2 is ge 3, 'a' is eq('a'), 1 is sameas 1, true is sameas true, 1 is sameas true, xs is sameas xs] }}
{{ ['a' is in 'abc', 1 is in xs, 9 is in xs, 'a' is in d, 'x' is not in 'abc', none is in [none]] }} {{ 'a' is in 5 }}
{{ ['upper' is filter, 'nosuch' is filter, 'odd' is test, 'nosuch' is test, 'tojson' is filter, ('<' | safe) is escaped, '<' is escaped] }}
{{ 1 is not none and 2 is not string }} {{ not missing is defined }} {{ missing is not defined }} {{ 1 is number and 'a' is string or false }} {{ (1 is string) is boolean }} {{ d.a is defined and d.a }} {{ 2 is divisibleby 2 and 3 }}
{{ 1 is string is boolean }}
{{ 'x' if m is iterable and m is not string and m is not mapping else 'y' }} {{ 'content' in m[0] and m[0].content is string }} {{ m[0].content is none }} {{ m[0].role is eq 'user' and m[0].n is gt 1 }}
{{ 1 is nosuch }}
{{ false and 1 is nosuch }}
{{ 1 is divisibleby }}
""",
    "loops": r"""
{% for x in xs %}{{ loop.index }}/{{ loop.length }}:{{ x }}{{ '' if loop.last else ', ' }}{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }}{% if not loop.last %};{% endif %}{% endfor %} {% for k in d %}{{ k }}{% endfor %} {% for k, v in d | dictsort %}{{ k }}{% endfor %}
{% for x in xs if x > 1 %}{{ loop.index0 }}{{ x }}{% else %}none{% endfor %} {% for x in xs if x > 9 %}{{ x }}{% else %}none{% endfor %}
{% for c in 'é日x' %}[{{ c }}]{% endfor %} {% for i in range(5, 0, -2) %}{{ i }}{% endfor %} {% for x in (1, 'a', none) %}{{ x }}{% endfor %} {% for a, b in [[1, 2], 'xy', (3, 4)] %}{{ a }}{{ b }}{% endfor %}
{% set ns = namespace(i=0, s='') %}{% for x in xs %}{% set ns.i = ns.i + x %}{% set ns.s = ns.s ~ x %}{% endfor %}{{ ns.i }}{{ ns.s }}{{ ns.q is defined }}
{% set i = 0 %}{% for x in xs %}{% set i = i + x %}{{ i }}{% endfor %}{{ i }}
{% for x in xs %}{% for y in xs %}{% if y == x %}{% continue %}{% endif %}{{ x }}{{ y }}{% if y == 2 %}{% break %}{% endif %} {% endfor %}|{% endfor %}
{% for x in xs %}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }}{{ loop.revindex }}{{ loop.first }}{% endfor %}{{ loop is defined }}
{% for x in xs %}{% set outer = loop %}{% for y in 'ab' %}{{ outer.index }}{{ loop.index }}{{ y }} {% endfor %}{% endfor %}
{% for n in [{'v': 1, 'c': [{'v': 2, 'c': []}, {'v': 3}]}] recursive %}{{ loop.depth }}{{ n.v }}{% if n.c %}[{{ loop(n.c) }}]{% endif %}{% endfor %}
{% for x in [1, 1, 2, 2, 1] %}{{ x if loop.changed(x) else '-' }}{% endfor %}
{% for x in 5 %}{% endfor %}
{% for a, b in [1, 2] %}{% endfor %}
{% for x in none %}{% endfor %}
{% for x in missing %}a{% else %}b{% endfor %}{% for x in e %}a{% else %}c{% endfor %}{% for x in {} %}a{% else %}d{% endfor %}
{% if xs and not e %}1{% endif %}{% if e or z %}2{% elif d %}3{% else %}4{% endif %}{% if '0' %}5{% endif %}{% if [0] %}6{% endif %}{% if 0.0 %}7{% endif %}{% if {} %}8{% endif %}
{{ 'a' if xs }}{{ 'b' if e }}{{ 'c' if e else 'd' if z else 'f' }}{{ ('x' if b) ~ ('y' if z else '') }} {{ [1 if b else 2, 3] }}
{% break %}
{% for m in m %}{% if loop.first and m.role == 'user' %}first {% endif %}{{ m.role }}{% if loop.nextitem is defined and loop.nextitem.role == 'tool' %}>{% endif %}{% endfor %}
{{ range(3) }}{{ range(3) | list }}{{ range(1, 10, 4) | list }}{{ range(0) | list }}{{ 3 in range(5) }}{{ range(5) | sum }}{{ range(3) == range(0, 3) }}
{{ range(1, 2, 0) | list }}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set j = joiner('; ') %}{% for x in xs %}{{ j() }}{{ x }}{% endfor %}
""",
    "macros": r"""
{% macro f(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1) }} {{ f(1, c=3) }} {{ f(a=1, b=5) }} {{ f() }}
{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, k=3) }} {{ f() }} {{ f(*xs, **{'q': 1}) }}
{% macro f(x) %}[{{ x }}{{ caller() if caller }}]{% endmacro %}{{ f(1) }}{% call f(2) %}in{% endcall %}
{% macro f(x) %}{% if x > 0 %}{{ x }}{{ f(x - 1) }}{% endif %}{% endmacro %}{{ f(4) }}
{% macro f(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }} {{ f.name }} {{ f.arguments }} {{ f.catch_kwargs }} {{ f is callable }}
{% macro f(x) %} {{ x }} {% endmacro %}{{ f('a') | trim }}{{ f('b') | length }}{{ (f('c') ~ f('d')) | replace(' ', '_') }}{{ f('e') is string }}
{% macro f(x) %}{% set y = x * 2 %}{{ y }}{% endmacro %}{{ f(2) }}{{ y is defined }}{% set y = 9 %}{{ f(3) }}{{ y }}
{% macro f(x) %}{% endmacro %}{{ f(1, 2) }}
{% macro f(x) %}{% endmacro %}{{ f(y=2) }}
{% macro list(x) %}<{{ caller(x) }}>{% endmacro %}{% call(v) list(5) %}{{ v + 1 }}{% endcall %}
{% macro f(items) %}{% for i in items %}{{ loop.index }}{{ i }}{% endfor %}{% endmacro %}{{ f(xs) }}{{ f('ab') }}{{ f([]) }}
{% macro f(a, b) %}{{ b is defined }}{{ b }}{{ b is none }}{% endmacro %}{{ f(1) }}{{ f(1, none) }}
{% set ns = namespace(a=1, b={'c': 2}) %}{{ ns.a }}{{ ns.b.c }}{% set ns.a = 'é' %}{{ ns.a }}{% set ns.d = [1] %}{{ ns.d }}{{ ns['a'] }}
{% set ns = namespace() %}{% set ns.x = 1 %}{% if true %}{% set ns.x = 2 %}{% endif %}{{ ns.x }}{{ ns.y }}{{ ns.y.z }}
{% set d.x = 1 %}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set a, b = b, a %}{{ a }}{{ b }}{% set (a, b) = 'xy' %}{{ a }}{{ b }}{% set t = 1, 2 %}{{ t }}
{% set a, b = [1] %}
{% set x %}a {{ n }} b{% endset %}{{ x }}{{ x | length }}{% set y | upper %}q{{ x }}{% endset %}{{ y }}
{% with a = 1, b = 2 %}{{ a + b }}{% set a = 5 %}{{ a }}{% endwith %}{{ a is defined }}
{% filter upper %}a{{ s[:3] }}{% if true %}ß{% endif %}{% endfilter %}{% filter replace('a', 'b') | upper %}aa{% endfilter %}
{{ dict(a=1, **{'b': 2}) }}{{ dict([['x', 1]]) }}{{ dict() }}{{ {'a': 1, 'a': 2} }}{{ {1: 2, 'k': [3], (1, 2): none} }}
{{ {[1]: 2} }}
{{ nosuch(1) }}
{{ n(1) }}
{{ raise_exception('no ' ~ n) }}
{% if false %}{{ raise_exception('x') }}{% endif %}ok{{ raise_exception is callable }}
""",
    "space": r"""
a {%- if true %} b {% endif -%} c
{%- set x = 1 -%}  y  {{- x -}}  z
  {% if true %}a{% endif %}  {#- c -#}  b{# d #}
{{ '  a  ' }}{{- ' b ' -}} c {{ ' d ' -}}   e
{% raw %}{{ x }} {% if %}{% endraw %}{%- raw -%} a {% endraw -%} b
{% for x in xs -%} {{ x }} {%- endfor %} {% for x in xs %} {{- x -}} {% endfor %}
{%+ if true %}a{%+ endif %} {%- if true +%} b{% endif %}
{{ 'a' }}{# {{ 'b' }} {% if %} #}{{ "{{ 'c' }}" }}{{ '{%' }}{{ '#}' }}
{{'a'}}{{n+1}}{{-n}}{%if n%}b{%endif%}{%for x in xs%}{{x}}{%endfor%}{{ n
 + 1 }}
""",
    "errors": r"""
{{ missing.a }}
{{ missing[0] }}
{{ d.q.r }}
{{ none.x.y }}
{{ missing + 1 }}
{{ missing() }}
{{ d.q() }}
{{ -'a' }}
{{ not }}
{{ 1 + }}
{{ (1 }}
{{ [1, 2 }}
{{ 'abc }}
{{ 1 2 }}
{{ a b }}
{{ x | }}
{{ x. }}
{{ x[] }}
{{ {1} }}
{{ {'a' 1} }}
{% if %}{% endif %}
{% if 1 %}
{% endif %}
{% for %}{% endfor %}
{% for x xs %}{% endfor %}
{% set = 1 %}
{% set 1 = 1 %}
{% set x %}
{% macro %}{% endmacro %}
{% macro f(1) %}{% endmacro %}
{% macro f(a=1, b) %}{% endmacro %}
{% nosuch %}
{% else %}
{{ f(a=1, 2) }}
{{ f(a=1, a=2) }}
{{ 1 if }}
{{ @ }}
{{ a ? b : c }}
{{ a && b }}
{{ a || b }}
{{ !a }}
{{ a === b }}
{{ 1.2.3 }}
{{ 'a' is }}
{{ 1 in }}
{# unclosed
{% raw %}a
{{ d | map | list }}
{{ xs | map(attribute='a.b') | list }}
{{ [none] | map(attribute='a.b') | list }}
{{ 'a' in none }}
{{ [1] in d.keys() }}
{{ [1] in d }}
{{ 1 in 'abc' }}
{{ none + 'a' }}
{{ {} < {} }}
{{ none > none }}
{{ 'abc' - 'a' }}
{{ xs | first | first }}
{{ strftime_now(1) }}
{{ strftime_now() }}
{{ ''.__class__.__mro__ }}
{{ xs.__len__() }}
{{ _missing }}{{ __x is defined }}
{{ dict(1) }}
{{ range() }}
{{ range('a') }}
{{ namespace(1) }}
{{ 'a'.join(1) }}
{{ true.x }}{{ 1.x is defined }}
""",
}
# Whole lines that a newline is part of stand apart: the lists above are cut at newlines.
LONGER = {
    "blocks": "a\n  {% if true %}\n  b\n  {%- endif %}\nc\n\n{% for x in xs %}\n- {{ x }}\n{% endfor %}\nd\n",
    "blocks_signs": "{%- for x in xs %}\n  {{- x }}\n  {%+ if x %} y{% endif +%}\n{% endfor -%}\n  z\n",
    "comments_lines": "a\n{# one #}\nb {# two\nlines #} c\n   {#- three -#}   \nd\n",
    "raw_lines": "{% raw %}\n  {{ x }}\n{% endraw %}\n  a\n{%- raw %}\n b {%- endraw %}\n",
    "set_lines": "{% set x = [\n  1,\n  2,\n] %}\n{% set y = {\n 'a': 1,\n} %}\n{{ x }}{{ y }}\n{{ (1,\n 2) }}",
    "tabs": "\t{% if true %}\n\ta\t\n\t{% endif %}\n\u00a0{% if true %}b{% endif %}\n\x0c{% if true %}c{% endif %}",
    "crlf": "a\r\n{% if true %}\r\n b\r\n{% endif %}\r\n{{ 'x\r\ny' }}\r\n",
    "macro_lines": "{% macro f(x) %}\n  <{{ x }}>\n{% endmacro %}\n{{ f(1) }}\n{%- macro g() -%}\n g \n{%- endmacro -%}\n{{ g() }}|",
    "line_ends": "{{ 'a\nb' }}\n{{ \"c\\\nd\" }}\n{{- '\n' -}}\nx",
}


def all_cases():
    """(name, template) of each."""
    for about, lines in TEXTS.items():
        for i, line in enumerate(lines[1:-1].replace("\n + 1 }}", "\x00").split("\n")):
            yield f"{about}_{i + 1}", line.replace("\x00", "\n + 1 }}")
    for name, text in LONGER.items():
        yield f"{name}", text
