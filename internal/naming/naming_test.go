package naming_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"sluice/internal/naming"
	"sluice/internal/sluice"
)

var (
	allowed  = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)
	policies = []sluice.NamingPolicy{sluice.PolicyCopyV1, sluice.PolicyLegacyBatchV1}
)

func TestVectors(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/naming_vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		SourceType string  `json:"source_type"`
		Prefix     *string `json:"prefix"`
		Name       string  `json:"name"`
		Copy       string  `json:"copy_v1"`
		Legacy     string  `json:"legacy_batch_v1"`
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors) < 50 {
		t.Fatalf("only %d vectors", len(vectors))
	}
	for _, v := range vectors {
		prefix := ""
		if v.Prefix != nil {
			prefix = *v.Prefix
		}
		for policy, want := range map[sluice.NamingPolicy]string{
			sluice.PolicyCopyV1:        v.Copy,
			sluice.PolicyLegacyBatchV1: v.Legacy,
		} {
			got, err := naming.Name(policy, v.SourceType, prefix, v.Name)
			if err != nil || got.Name != want {
				t.Errorf("%s(%q, %q, %q) = %q, %v; want %q", policy, v.SourceType, prefix, v.Name, got.Name, err, want)
			}
		}
	}
}

func TestNameSaysHowItCameAbout(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("orders_", 12)
	for _, policy := range policies {
		d := derive(t, policy, "Stripe", "", "x")
		if want := (naming.Derived{Policy: string(policy), Raw: "Stripe_x", Name: "stripe_x"}); d != want {
			t.Errorf("got %+v, want %+v", d, want)
		}
		if d := derive(t, policy, "Stripe", "eu", long); !d.Cut || len(d.Name) != 63 || d.Raw != "Stripe_eu_"+long {
			t.Errorf("long name: %+v", d)
		}
	}
	// 63 bytes fit, 64 do not.
	if d := derive(t, sluice.PolicyCopyV1, "s", "", strings.Repeat("a", 61)); d.Cut {
		t.Errorf("63 bytes were cut: %+v", d)
	}
	if d := derive(t, sluice.PolicyCopyV1, "s", "", strings.Repeat("a", 62)); !d.Cut {
		t.Errorf("64 bytes were not cut: %+v", d)
	}
}

func TestNameRefuses(t *testing.T) {
	t.Parallel()
	for _, policy := range []sluice.NamingPolicy{"", "copy_v2", "COPY_V1"} {
		if _, err := naming.Name(policy, "Stripe", "", "x"); sluice.CodeOf(err) != "SLUICE-NAME-POLICY" {
			t.Errorf("policy %q: %v", policy, err)
		}
	}
	if _, err := naming.Name(sluice.PolicyLegacyBatchV1, " ", "\t", ""); sluice.CodeOf(err) != "SLUICE-NAME-EMPTY" {
		t.Errorf("blank source: %v", err)
	}
	if d := derive(t, sluice.PolicyCopyV1, "", "", ""); d.Name != "data_import" {
		t.Errorf("blank source under copy_v1: %q", d.Name)
	}
}

func TestSnakeCase(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":               "",
		" \t":            "",
		"id":             "id",
		"customerID":     "customer_id",
		"CustomerId":     "customer_id",
		"HTTPServerLog":  "http_server_log",
		"a1B":            "a1_b",
		"_private":       "_private",
		"__x__y":         "_x_y",
		"tail_":          "tailx",
		"tail___":        "tailxxx",
		"2024":           "_2024",
		"a-+b":           "a_xb",
		"ABc":            "a_bc",
		"A_Bc":           "a_bc",
		"日本":             "x",
		"\x1c padded \n": "padded",
	} {
		if got := naming.SnakeCase(in); got != want {
			t.Errorf("SnakeCase(%q) = %q, want %q", in, got, want)
		}
	}
}

// part draws text as users write it, with a good share of what the rules care about.
func part() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.String(),
		rapid.StringMatching(`[A-Za-z0-9_+*@|\- .]{0,90}`),
		rapid.StringMatching(`([A-Z][a-z]{1,4}){0,20}`),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }), // not always UTF-8
	)
}

func TestNameIsAllowedAndStable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sourceType := rapid.SampledFrom([]string{"Stripe", "3PL", "_x", "日本"}).Draw(t, "source_type")
		prefix, name := part().Draw(t, "prefix"), part().Draw(t, "name")
		for _, policy := range policies {
			checkName(t, policy, sourceType, prefix, name)
		}
	})
}

func TestSnakeCaseIsIdempotent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		once := naming.SnakeCase(part().Draw(t, "identifier"))
		if once != "" && !allowed.MatchString(once) {
			t.Fatalf("not allowed: %q", once)
		}
		if twice := naming.SnakeCase(once); twice != once {
			t.Fatalf("%q became %q", once, twice)
		}
	})
}

func FuzzName(f *testing.F) {
	f.Add("Stripe", "", "customers")
	f.Add("3PL", "Ö", "deals__")
	f.Add("TikTokAds", "prod__us", "CamelCaseCamelCaseCamelCaseCamelCaseCamelCaseCamelCase")
	f.Add("_sluice", "+-*@|", "\x1f\xff 日本語")
	f.Fuzz(func(t *testing.T, sourceType, prefix, name string) {
		for _, policy := range policies {
			if sourceType == "" {
				sourceType = "x"
			}
			checkName(t, policy, sourceType, prefix, name)
		}
	})
}

// failer is what *testing.T and *rapid.T have in common.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func derive(t failer, policy sluice.NamingPolicy, sourceType, prefix, name string) naming.Derived {
	t.Helper()
	d, err := naming.Name(policy, sourceType, prefix, name)
	if err != nil {
		t.Fatalf("%s(%q, %q, %q): %v", policy, sourceType, prefix, name, err)
	}
	return d
}

func checkName(t failer, policy sluice.NamingPolicy, sourceType, prefix, name string) {
	t.Helper()
	d, err := naming.Name(policy, sourceType, prefix, name)
	if sluice.CodeOf(err) == "SLUICE-NAME-EMPTY" {
		return
	}
	if err != nil || !allowed.MatchString(d.Name) {
		t.Fatalf("%s(%q, %q, %q) = %q, %v", policy, sourceType, prefix, name, d.Name, err)
	}
	if again := derive(t, policy, sourceType, prefix, name); again != d {
		t.Fatalf("not stable: %+v, then %+v", d, again)
	}
	if d.Cut && len(d.Name) != 63 {
		t.Fatalf("cut to %d bytes: %q", len(d.Name), d.Name)
	}
	// What a name is derived from survives a second derivation: only the joint is new.
	if d.Cut {
		return
	}
	if rest := derive(t, policy, d.Name, "", "z"); !rest.Cut && rest.Name != d.Name+"_z" {
		t.Fatalf("%s: %q, then %q", policy, d.Name, rest.Name)
	}
}

func TestCollide(t *testing.T) {
	t.Parallel()
	const stream = "0b2d4a4e-6c8f-4f0e-9a55-0d9b8a0c1f11"
	got := []string{}
	for n := range 14 {
		name := naming.Collide(7, "Stripe", "", "x", stream, "stripe_x", n)
		if !regexp.MustCompile(`^stripe_x_[a-z2-7]{8}$`).MatchString(name) {
			t.Errorf("substitute %d: %q", n, name)
		}
		for _, before := range got {
			if before == name {
				t.Errorf("substitute %d repeats %q", n, name)
			}
		}
		got = append(got, name)
	}
	if naming.Collide(7, "Stripe", "", "x", stream, "stripe_x", 0) != got[0] {
		t.Error("not stable")
	}
	// Where one field ends and the next begins matters.
	a := naming.Collide(1, "ab", "c", "d", stream, "t", 0)
	for _, b := range []string{
		naming.Collide(1, "a", "bc", "d", stream, "t", 0),
		naming.Collide(1, "ab", "", "cd", stream, "t", 0),
		naming.Collide(11, "ab", "c", "d", stream, "t", 0),
	} {
		if a == b {
			t.Errorf("two sources have the substitute %q", a)
		}
	}
	// Characters are not cut in two.
	wide := naming.Collide(1, "s", "", "n", stream, strings.Repeat("ü", 30), 0)
	if !utf8.ValidString(wide) || len(wide) > 63 || !strings.HasPrefix(wide, strings.Repeat("ü", 27)+"_") {
		t.Errorf("wide: %q", wide)
	}
	odd := naming.Collide(1, "s", "", "n", stream, "a"+strings.Repeat("ü", 30), 0)
	if !utf8.ValidString(odd) || !strings.HasPrefix(odd, "a"+strings.Repeat("ü", 26)+"_") {
		t.Errorf("odd: %q", odd)
	}
}

// A name under a reserved prefix must have a substitute that is not, or binding would never end.
func TestCollideLeavesReservedPrefix(t *testing.T) {
	t.Parallel()
	for _, derived := range []string{"_sluice_orders", "__ducklake_x", "_SLUICE_y", "events", "persons_raw"} {
		if !naming.Reserved(derived) {
			t.Errorf("%q is not reserved", derived)
		}
		if name := naming.Collide(1, "s", "", "n", "id", derived, 0); naming.Reserved(name) {
			t.Errorf("substitute of %q is reserved: %q", derived, name)
		}
	}
}

func TestCollideFits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		prefix, name := part().Draw(t, "prefix"), part().Draw(t, "name")
		for _, policy := range policies {
			d := derive(t, policy, "Stripe", prefix, name)
			c := naming.Collide(1, "Stripe", prefix, name, "id", d.Name, rapid.IntRange(0, 40).Draw(t, "n"))
			if !allowed.MatchString(c) || c == d.Name {
				t.Fatalf("substitute of %q: %q", d.Name, c)
			}
		}
	})
}

func TestReserved(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"events": true, "Events": true, "persons": true, "PERSONS": true, "persons_distinct_ids": true,
		"persons_raw": true, "persons_distinct_ids_raw": true, "persons_streaming": true,
		"persons_batch_20250131": true, "persons_batch_2025_01_31": true,
		"_sluice_x": true, "_Sluice_": true, "__ducklake_metadata_lake": true, "__DuckLake": true,
		"stripe_events": false, "events_raw": false, "persons_batch_x": false, "sluice_x": false, "_sluicex": false,
		"_ducklake": false, "": false,
	} {
		if got := naming.Reserved(name); got != want {
			t.Errorf("Reserved(%q) = %v", name, got)
		}
	}
}
