package envelope

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

const testKeyText = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

func testKey(t testing.TB, text string) Key {
	t.Helper()
	key, err := ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func testKeys(t testing.TB) *Keys { return New(testKey(t, testKeyText)) }

func otherKey(t testing.TB) Key { return testKey(t, strings.Repeat("fe", 32)) }

// open wants what stands before to stay, and nothing behind what is returned to be touched by
// a payload that is not opened.
func open(t *testing.T, k *Keys, stored string) (payload string, ok bool) {
	t.Helper()
	got, ok := k.AppendOpen([]byte("before"), []byte(stored), false)
	payload, found := strings.CutPrefix(string(got), "before")
	if !found || !ok && payload != "" {
		t.Fatalf("%.100s: got %.100q, %v", stored, got, ok)
	}
	if trusted, opened := k.AppendOpen(nil, []byte(stored), true); ok && (!opened || string(trusted) != payload) {
		t.Fatalf("%.100s: got %.100q, %v if it is known", stored, trusted, opened)
	}
	return payload, ok
}

// G-820: what another implementation has sealed is opened. testdata/vectors.json says which.
func TestG820Vectors(t *testing.T) {
	var file struct {
		Key     string
		Vectors []struct{ Payload, Envelope string }
	}
	text, err := os.ReadFile("testdata/vectors.json")
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	if err != nil || len(file.Vectors) < 5 {
		t.Fatalf("%d vectors, %v", len(file.Vectors), err)
	}
	k := New(testKey(t, file.Key))
	for _, v := range file.Vectors {
		if got, ok := open(t, k, v.Envelope); !ok || got != v.Payload {
			t.Errorf("%s: got %q, %v", v.Envelope, got, ok)
		}
		if got := SealedLen(len(v.Payload)); got != len(v.Envelope) {
			t.Errorf("%s: length %d, want %d", v.Payload, got, len(v.Envelope))
		}
	}
}

// G-820: what we seal has the form that others open, byte for byte but for what is random. This
// opens it by hand, as they do.
func TestG820Seal(t *testing.T) {
	k, key := testKeys(t), testKey(t, testKeyText)
	block, _ := aes.NewCipher(key[:])
	gcm, _ := cipher.NewGCM(block)
	seen := map[string]bool{}
	for n := range 200 {
		payload := `"` + strings.Repeat("s", n) + `"`
		sealed := k.AppendSeal([]byte("before"), []byte(payload))
		stored, ok := strings.CutPrefix(string(sealed), "before")
		var e struct{ Encrypted, Iv, AuthTag string }
		if err := json.Unmarshal([]byte(stored), &e); !ok || err != nil || len(stored) != SealedLen(len(payload)) {
			t.Fatalf("%q: %v, length %d", sealed, err, len(stored))
		}
		if want := `{"encrypted":"` + e.Encrypted + `","iv":"` + e.Iv + `","authTag":"` + e.AuthTag + `"}`; stored != want {
			t.Fatalf("got %s want %s", stored, want)
		}
		var bytes [3][]byte
		for i, text := range []string{e.Encrypted, e.Iv, e.AuthTag} {
			var err error
			if bytes[i], err = base64.StdEncoding.DecodeString(text); err != nil {
				t.Fatal(err)
			}
		}
		if len(bytes[1]) != 16 || len(bytes[2]) != 16 || seen[e.Iv] {
			t.Fatalf("iv of %d bytes, tag of %d, repeated %v", len(bytes[1]), len(bytes[2]), seen[e.Iv])
		}
		seen[e.Iv] = true
		got, err := gcm.Open(nil, bytes[1][:12], append(bytes[0], bytes[2]...), nil)
		if err != nil || string(got) != payload {
			t.Fatalf("got %q, %v", got, err)
		}
		if got, ok := open(t, k, stored); !ok || got != payload {
			t.Fatalf("got %q, %v want %q", got, ok, payload)
		}
	}
}

// sealed returns the values of an envelope of `{"n":1}`.
func sealed(t testing.TB, k *Keys, payload string) (text, iv, tag string) {
	var e struct{ Encrypted, Iv, AuthTag string }
	if err := json.Unmarshal(k.AppendSeal(nil, []byte(payload)), &e); err != nil {
		t.Fatal(err)
	}
	return e.Encrypted, e.Iv, e.AuthTag
}

// G-823: by shape, and what only looks so stays what it is.
func TestG823Shape(t *testing.T) {
	k := testKeys(t)
	const payload = `{"n":1}`
	text, iv, tag := sealed(t, k, payload)
	plain := base64.StdEncoding.EncodeToString
	notJSON, notJSONIV, notJSONTag := sealed(t, k, `hello`)
	notText, notTextIV, notTextTag := sealed(t, k, "\"\xff\"")
	for name, row := range map[string]struct {
		stored string
		want   bool
	}{
		"as we write it":   {`{"encrypted":"` + text + `","iv":"` + iv + `","authTag":"` + tag + `"}`, true},
		"another order":    {`{"authTag":"` + tag + `","iv":"` + iv + `","encrypted":"` + text + `"}`, true},
		"with white space": {" {\n\t\"iv\" : \"" + iv + "\",\r\n\"authTag\": \"" + tag + "\" , \"encrypted\":\"" + text + "\" } ", true},

		"no tag":               {`{"encrypted":"` + text + `","iv":"` + iv + `"}`, false},
		"iv twice":             {`{"encrypted":"` + text + `","iv":"` + iv + `","iv":"` + iv + `"}`, false},
		"another member":       {`{"encrypted":"` + text + `","iv":"` + iv + `","authTag":"` + tag + `","n":"1"}`, false},
		"another name":         {`{"encrypted":"` + text + `","IV":"` + iv + `","authTag":"` + tag + `"}`, false},
		"a number":             {`{"encrypted":"` + text + `","iv":12,"authTag":"` + tag + `"}`, false},
		"true":                 {`{"encrypted":true}`, false},
		"in an array":          {`[{"encrypted":"` + text + `","iv":"` + iv + `","authTag":"` + tag + `"}]`, false},
		"text behind":          {`{"encrypted":"` + text + `","iv":"` + iv + `","authTag":"` + tag + `"} 1`, false},
		"cut":                  {`{"encrypted":"` + text + `","iv":"` + iv + `","authTag":"` + tag, false},
		"no colon":             {`{"encrypted","iv","authTag"}`, false},
		"iv of 12 bytes":       {`{"encrypted":"` + text + `","iv":"` + plain(make([]byte, 12)) + `","authTag":"` + tag + `"}`, false},
		"iv of 17 bytes":       {`{"encrypted":"` + text + `","iv":"` + plain(make([]byte, 17)) + `","authTag":"` + tag + `"}`, false},
		"tag of 15 bytes":      {`{"encrypted":"` + text + `","iv":"` + iv + `","authTag":"` + plain(make([]byte, 15)) + `"}`, false},
		"tag of 17 bytes":      {`{"encrypted":"` + text + `","iv":"` + iv + `","authTag":"` + plain(make([]byte, 17)) + `"}`, false},
		"another tag":          {`{"encrypted":"` + text + `","iv":"` + iv + `","authTag":"` + plain(make([]byte, 16)) + `"}`, false},
		"another iv":           {`{"encrypted":"` + text + `","iv":"` + plain(make([]byte, 16)) + `","authTag":"` + tag + `"}`, false},
		"no base64":            {`{"encrypted":"?","iv":"` + iv + `","authTag":"` + tag + `"}`, false},
		"nothing sealed":       {`{"encrypted":"","iv":"` + iv + `","authTag":"` + tag + `"}`, false},
		"all empty":            {`{"encrypted":"","iv":"","authTag":""}`, false},
		"sealed, but no JSON":  {`{"encrypted":"` + notJSON + `","iv":"` + notJSONIV + `","authTag":"` + notJSONTag + `"}`, false},
		"sealed, but no UTF-8": {`{"encrypted":"` + notText + `","iv":"` + notTextIV + `","authTag":"` + notTextTag + `"}`, false},
		"a payload":            {payload, false},
		"nothing":              {``, false},
		"null":                 {`null`, false},
	} {
		got, ok := open(t, k, row.stored)
		if ok != row.want || ok && got != payload {
			t.Errorf("%s: got %q, %v", name, got, ok)
		}
	}
}

// No bit of an envelope changes what it opens to: another bit either makes it fail, or is one
// that base64 does not use.
func TestG823EveryFlip(t *testing.T) {
	k := testKeys(t)
	const payload = `{"n":1}`
	stored := k.AppendSeal(nil, []byte(payload))
	for i := range 8 * len(stored) {
		stored[i/8] ^= 1 << (i % 8)
		if got, ok := open(t, k, string(stored)); ok && got != payload {
			t.Fatalf("bit %d: %s opens to %q", i, stored, got)
		}
		stored[i/8] ^= 1 << (i % 8)
	}
}

// G-825: keys that were in use open what they have sealed, in any order, and nothing else.
func TestG825PreviousKeys(t *testing.T) {
	first, second := testKey(t, testKeyText), otherKey(t)
	const payload = `{"n":1}`
	old := string(New(first).AppendSeal(nil, []byte(payload)))
	for name, row := range map[string]struct {
		keys *Keys
		want bool
	}{
		"the same":            {New(first), true},
		"another":             {New(second), false},
		"another and the old": {New(second, first), true},
		"the old, first":      {New(first, second), true},
		"behind another":      {New(second, testKey(t, strings.Repeat("11", 32)), first), true},
	} {
		if got, ok := open(t, row.keys, old); ok != row.want || ok && got != payload {
			t.Errorf("%s: got %q, %v", name, got, ok)
		}
	}
	if _, ok := open(t, New(first), string(New(second, first).AppendSeal(nil, []byte(payload)))); ok {
		t.Error("a previous key has sealed")
	}
}

// G-821: a key is 64 hexadecimal digits, and no refusal shows one.
func TestG821Keys(t *testing.T) {
	other := strings.Repeat("Fe", 32)
	for name, row := range map[string]struct {
		text string
		keys int
		want string // in the error
	}{
		"one":              {testKeyText, 1, ""},
		"with its newline": {testKeyText + "\n", 1, ""},
		"two":              {testKeyText + "\r\n\n  " + other + "\t\n", 2, ""},
		"empty":            {" \n", 0, "it is empty"},
		"short":            {testKeyText[2:], 0, "line 1: not 64 hexadecimal digits"},
		"long":             {testKeyText + "00", 0, "line 1: "},
		"no hex":           {testKeyText + "\n" + strings.Repeat("zq", 32), 0, "line 2: not 64 hexadecimal digits"},
		"two on a line":    {testKeyText + " " + other, 0, "line 1: "},
	} {
		keys, err := ParseKeys(row.text)
		if len(keys) != row.keys || (err != nil) != (row.keys == 0) {
			t.Errorf("%s: %d keys, %v", name, len(keys), err)
		}
		if err != nil && (!strings.HasPrefix(err.Error(), row.want) || strings.Contains(err.Error(), "zq") || strings.Contains(err.Error(), "fe")) {
			t.Errorf("%s: %v", name, err)
		}
		if row.keys == 2 && keys[1] != otherKey(t) {
			t.Errorf("%s: got %x", name, keys[1])
		}
	}
}

// FuzzOpen holds that nothing makes it panic, and that what is taken for an envelope is an
// object with three texts to encoding/json as well.
func FuzzOpen(f *testing.F) {
	k := testKeys(f)
	sealed := string(k.AppendSeal(nil, []byte(`{"n":1}`)))
	for _, seed := range []string{
		sealed, "", "{}", `{"encrypted":"","iv":"","authTag":""}`, `{"iv":"a","iv":"b"}`, strings.ReplaceAll(sealed, ",", " ,\n"), `{"encrypted":"\""`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, ok := k.AppendOpen(nil, b, false); ok != (got != nil) {
			t.Fatalf("%q: got %q, %v", b, got, ok)
		}
		e, ok := parse(b)
		if !ok || !json.Valid(b) {
			return
		}
		var members map[string]string
		if err := json.Unmarshal(b, &members); err != nil || len(members) != 3 {
			t.Fatalf("%q is no envelope: %v", b, err)
		}
		if bytes.Contains(b, []byte(`\`)) || !utf8.Valid(b) {
			return
		}
		if members["encrypted"] != string(e.text) || members["iv"] != string(e.iv) || members["authTag"] != string(e.tag) {
			t.Fatalf("%q: got %q", b, e)
		}
	})
}
