package schema

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"sluice/internal/sluice"
)

// CodeValue is the code of a partition value that is not one of its column's type, or is not there.
const CodeValue sluice.Code = "SLUICE-DELTA-PARTITION-VALUE"

// Value is a typed partition value in its one spelling, see ParseValue; nil is NULL. It is a text so that plans can be
// stored as JSON without losing anything.
type Value *string

// ParseValue reads the text of a partition value. The empty text is NULL for every type, texts included: that is how
// writers spell NULL. zone is the one that the writer's timestamps without a zone are in.
//
// The spelling of what it gives: true and false; integers in decimal; decimals with all digits of their scale; floating
// point numbers as short as they can be read back, and NaN, Infinity, -Infinity; 2006-01-02; timestamps in UTC as
// 2006-01-02T15:04:05.000000Z, without the Z for timestamp_ntz; texts and binary (its bytes) as they are.
func ParseValue(t Type, text string, zone *time.Location) (Value, error) {
	if text == "" {
		return nil, nil
	}
	var (
		out string
		ok  = true
	)
	switch t.Kind {
	case String, Binary:
		out = text
	case Boolean:
		out = strings.ToLower(text)
		ok = out == "true" || out == "false"
	case Byte:
		out, ok = parseInt(text, 8)
	case Short:
		out, ok = parseInt(text, 16)
	case Integer:
		out, ok = parseInt(text, 32)
	case Long:
		out, ok = parseInt(text, 64)
	case Float:
		out, ok = parseFloat(text, 32)
	case Double:
		out, ok = parseFloat(text, 64)
	case Decimal:
		out, ok = parseDecimal(text, t.Precision, t.Scale)
	case Date:
		var day time.Time
		var rest string
		day, rest, ok = parseDate(text)
		ok = ok && rest == ""
		out = formatDate(day)
	case Timestamp:
		out, ok = parseTimestamp(text, zone, true)
	case TimestampNTZ:
		out, ok = parseTimestamp(text, time.UTC, false)
	default:
		ok = false
	}
	if !ok {
		what := fmt.Sprintf("partition value %q is not a %s", cut(text), t)
		return nil, sluice.E(CodeValue, "", what, "have the table's writer repair the partition", nil)
	}
	return &out, nil
}

// cut keeps messages short.
func cut(text string) string {
	if len(text) > 80 {
		return text[:80] + "…"
	}
	return text
}

func parseInt(text string, bits int) (string, bool) {
	n, err := strconv.ParseInt(text, 10, bits)
	return strconv.FormatInt(n, 10), err == nil
}

func parseFloat(text string, bits int) (string, bool) {
	switch strings.ToLower(text) {
	case "nan":
		return "NaN", true
	case "infinity", "+infinity", "inf", "+inf":
		return "Infinity", true
	case "-infinity", "-inf":
		return "-Infinity", true
	}
	if strings.Trim(text, "0123456789+-.eE") != "" {
		return "", false
	}
	f, err := strconv.ParseFloat(text, bits)
	return strconv.FormatFloat(f, 'g', -1, bits), err == nil
}

// maxExponent bounds what a decimal's exponent may ask for; no decimal has more digits than 38.
const maxExponent = 100

func parseDecimal(text string, precision, scale int) (string, bool) {
	digits, exponent := text, 0
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		n, err := strconv.Atoi(text[i+1:])
		if err != nil || n < -maxExponent || n > maxExponent {
			return "", false
		}
		digits, exponent = text[:i], n
	}
	negative := strings.HasPrefix(digits, "-")
	if negative || strings.HasPrefix(digits, "+") {
		digits = digits[1:]
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	digits = whole + fraction
	if digits == "" || strings.Trim(digits, "0123456789") != "" || len(digits) > 2*maxExponent {
		return "", false
	}
	n, _ := new(big.Int).SetString(digits, 10)
	ten := big.NewInt(10)
	shift := scale - len(fraction) + exponent
	power := new(big.Int).Exp(ten, big.NewInt(int64(max(shift, -shift))), nil)
	if shift >= 0 {
		n.Mul(n, power)
	} else {
		var rest big.Int
		if n.QuoRem(n, power, &rest); rest.Sign() != 0 {
			return "", false // digits that the type has no room for
		}
	}
	out := n.String()
	if out != "0" && len(out) > precision {
		return "", false
	}
	if scale > 0 {
		if pad := scale + 1 - len(out); pad > 0 {
			out = strings.Repeat("0", pad) + out
		}
		out = out[:len(out)-scale] + "." + out[len(out)-scale:]
	}
	if negative && n.Sign() != 0 {
		out = "-" + out
	}
	return out, true
}

// parseDate reads yyyy-MM-dd, with a sign and more digits of the year where there are any, and gives what follows.
func parseDate(text string) (day time.Time, rest string, ok bool) {
	body, sign := text, 1
	switch {
	case strings.HasPrefix(body, "-"):
		body, sign = body[1:], -1
	case strings.HasPrefix(body, "+"):
		body = body[1:]
	}
	end := strings.IndexByte(body, '-')
	if end < 4 || end > 6 || len(body) < end+6 || body[end+3] != '-' {
		return time.Time{}, "", false
	}
	y, ok1 := digits(body[:end])
	m, ok2 := digits(body[end+1 : end+3])
	d, ok3 := digits(body[end+4 : end+6])
	y *= sign
	day = time.Date(y, time.Month(m), d, 0, 0, 0, 0, time.UTC)
	valid := ok1 && ok2 && ok3 && day.Year() == y && day.Month() == time.Month(m) && day.Day() == d
	return day, body[end+6:], valid
}

func digits(text string) (int, bool) {
	n := 0
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, text != ""
}

func formatDate(t time.Time) string {
	y := t.Year()
	switch {
	case y < 0:
		return fmt.Sprintf("-%04d-%02d-%02d", -y, t.Month(), t.Day())
	case y > 9999:
		return fmt.Sprintf("+%d-%02d-%02d", y, t.Month(), t.Day())
	}
	return fmt.Sprintf("%04d-%02d-%02d", y, t.Month(), t.Day())
}

// parseTimestamp reads a date, and a time after a space or a T. Where zoned is set, a T may be followed by Z or an offset;
// without one, the time is in zone.
func parseTimestamp(text string, zone *time.Location, zoned bool) (string, bool) {
	day, rest, ok := parseDate(text)
	if !ok {
		return "", false
	}
	var clock, micros int
	offset := zone
	if rest != "" {
		if rest[0] != ' ' && rest[0] != 'T' {
			return "", false
		}
		iso := rest[0] == 'T'
		clock, micros, rest, ok = parseClock(rest[1:])
		if !ok {
			return "", false
		}
		if rest != "" {
			if !iso || !zoned {
				return "", false
			}
			if offset, ok = parseOffset(rest); !ok {
				return "", false
			}
		}
	}
	y, m, d := day.Date()
	at := time.Date(y, m, d, 0, 0, clock, micros*1000, offset).UTC()
	if y := at.Year(); y < minYear || y > maxYear {
		return "", false
	}
	out := formatDate(at) + at.Format("T15:04:05.000000")
	if zoned {
		out += "Z"
	}
	return out, true
}

// The years whose microseconds fit 64 bits.
const minYear, maxYear = -290307, 294246

// parseClock reads HH:mm:ss[.f] as seconds and microseconds.
func parseClock(text string) (seconds, micros int, rest string, ok bool) {
	if len(text) < 8 || text[2] != ':' || text[5] != ':' {
		return 0, 0, "", false
	}
	h, ok1 := digits(text[:2])
	m, ok2 := digits(text[3:5])
	s, ok3 := digits(text[6:8])
	if !ok1 || !ok2 || !ok3 || h > 23 || m > 59 || s > 59 {
		return 0, 0, "", false
	}
	rest = text[8:]
	if strings.HasPrefix(rest, ".") {
		end := 1
		for end < len(rest) && rest[end] >= '0' && rest[end] <= '9' {
			end++
		}
		if end == 1 || end > 7 {
			return 0, 0, "", false
		}
		micros, _ = digits((rest[1:end] + "00000")[:6])
		rest = rest[end:]
	}
	return h*3600 + m*60 + s, micros, rest, true
}

// parseOffset reads Z or ±HH:mm.
func parseOffset(text string) (*time.Location, bool) {
	if text == "Z" {
		return time.UTC, true
	}
	if len(text) != 6 || text[3] != ':' || text[0] != '+' && text[0] != '-' {
		return nil, false
	}
	h, ok1 := digits(text[1:3])
	m, ok2 := digits(text[4:6])
	if !ok1 || !ok2 || h > 18 || m > 59 {
		return nil, false
	}
	seconds := h*3600 + m*60
	if text[0] == '-' {
		seconds = -seconds
	}
	return time.FixedZone("", seconds), true
}

// Days gives a date value as days since 1970.
func Days(value string) (int32, error) {
	day, rest, ok := parseDate(value)
	if !ok || rest != "" {
		return 0, fmt.Errorf("%q is not a date value", cut(value))
	}
	days := day.Unix() / 86400
	if days < math.MinInt32 || days > math.MaxInt32 {
		return 0, fmt.Errorf("%q is out of range", cut(value))
	}
	return int32(days), nil
}

// Micros gives a timestamp value, of either kind, as microseconds since 1970.
func Micros(value string) (int64, error) {
	day, rest, ok := parseDate(value)
	if ok && len(rest) > 1 && rest[0] == 'T' {
		clock, micros, zone, ok := parseClock(rest[1:])
		if ok && (zone == "" || zone == "Z") {
			return (day.Unix()+int64(clock))*1e6 + int64(micros), nil
		}
	}
	return 0, fmt.Errorf("%q is not a timestamp value", cut(value))
}

// Unscaled gives a decimal value as an integer, in units of its last digit.
func Unscaled(value string) (*big.Int, error) {
	n, ok := new(big.Int).SetString(strings.Replace(value, ".", "", 1), 10)
	if !ok {
		return nil, fmt.Errorf("%q is not a decimal value", cut(value))
	}
	return n, nil
}
