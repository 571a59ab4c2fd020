package value

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"sluice/internal/warehouse/duck"
)

// The engine counts from 1970, PostgreSQL from 2000.
const (
	epochDays   = 10957
	dayMicros   = 86_400_000_000
	epochMicros = epochDays * dayMicros
)

// What PostgreSQL can hold: from Julian day 0 (4714-11-24 BC) to the years 5874897 (date) and 294276 (timestamp).
const (
	minDay       = -2440588
	maxDay       = 2145042905
	minMicros    = minDay * dayMicros
	infiniteDay  = math.MaxInt32
	infiniteTime = math.MaxInt64
)

func dayError() error {
	return fmt.Errorf("date outside PostgreSQL's range, 4713 BC to 5874897 AD: %w", ErrDatetime)
}

func timeError() error {
	return fmt.Errorf("timestamp outside PostgreSQL's range, 4713 BC to 294276 AD: %w", ErrDatetime)
}

// pgDate gives a date as PostgreSQL stores it.
func pgDate(days int64) (int32, error) {
	switch {
	case days == infiniteDay:
		return math.MaxInt32, nil
	case days == -infiniteDay:
		return math.MinInt32, nil
	case days < minDay || days > maxDay:
		return 0, dayError()
	}
	return int32(days - epochDays), nil
}

// pgTimestamp gives a timestamp as PostgreSQL stores it.
func pgTimestamp(us int64) (int64, error) {
	switch {
	case us == infiniteTime:
		return math.MaxInt64, nil
	case us == -infiniteTime:
		return math.MinInt64, nil
	case us < minMicros:
		return 0, timeError()
	}
	return us - epochMicros, nil
}

// micros brings a timestamp of any unit to microseconds; infinity stays.
func micros(id duck.TypeID, n int64) int64 {
	if n == infiniteTime || n == -infiniteTime {
		return n
	}
	switch id {
	case duck.TimestampS:
		return n * 1_000_000
	case duck.TimestampMS:
		return n * 1000
	case duck.TimestampNS:
		return floorDiv(n, 1000)
	}
	return n
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// timeTZ takes a TIMETZ apart: microseconds since midnight, and seconds east of UTC.
func timeTZ(bits uint64) (int64, int) {
	const maxOffset = 16*3600 - 1
	return int64(bits >> 24), maxOffset - int(bits&0xffffff)
}

// civil gives year (astronomical: 0 is 1 BC), month and day of a number of days since 1970. It is the usual arithmetic of
// 400-year eras that begin on 1 March.
func civil(days int64) (year int64, month, day int) {
	z := days + 719468
	era := floorDiv(z, 146097)
	doe := z - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	day = int(doy - (153*mp+2)/5 + 1)
	month = int(mp + 3)
	if month > 12 {
		month -= 12
	}
	year = yoe + era*400
	if month <= 2 {
		year++
	}
	return year, month, day
}

// daysOf is civil's inverse.
func daysOf(year int64, month, day int) int64 {
	if month <= 2 {
		year--
	}
	era := floorDiv(year, 400)
	yoe := year - era*400
	mp := int64(month+9) % 12
	doy := (153*mp+2)/5 + int64(day) - 1
	doe := yoe*365 + yoe/4 - yoe/100 + doy
	return era*146097 + doe - 719468
}

var pow10 = [...]int64{1, 10, 100, 1000, 10_000, 100_000}

// pad writes a number, not negative, with at least width digits.
func pad(dst []byte, n int64, width int) []byte {
	for limit := pow10[width-1]; n < limit; limit /= 10 {
		dst = append(dst, '0')
		if limit == 10 {
			break
		}
	}
	return strconv.AppendInt(dst, n, 10)
}

func appendDay(dst []byte, days int64) (out []byte, bc bool) {
	y, m, d := civil(days)
	if bc = y <= 0; bc {
		y = 1 - y
	}
	dst = append(pad(dst, y, 4), '-')
	dst = append(pad(dst, int64(m), 2), '-')
	return pad(dst, int64(d), 2), bc
}

func appendDate(dst []byte, days int64) ([]byte, error) {
	switch {
	case days == infiniteDay:
		return append(dst, "infinity"...), nil
	case days == -infiniteDay:
		return append(dst, "-infinity"...), nil
	case days < minDay || days > maxDay:
		return dst, dayError()
	}
	dst, bc := appendDay(dst, days)
	if bc {
		dst = append(dst, " BC"...)
	}
	return dst, nil
}

func appendTime(dst []byte, us int64) []byte {
	sec, frac := us/1_000_000, us%1_000_000
	dst = append(pad(dst, sec/3600, 2), ':')
	dst = append(pad(dst, sec/60%60, 2), ':')
	dst = pad(dst, sec%60, 2)
	if frac == 0 {
		return dst
	}
	dst = pad(append(dst, '.'), frac, 6)
	for dst[len(dst)-1] == '0' {
		dst = dst[:len(dst)-1]
	}
	return dst
}

// appendOffset writes seconds east of UTC as +HH, +HH:MM or +HH:MM:SS.
func appendOffset(dst []byte, east int) []byte {
	sign := byte('+')
	if east < 0 {
		sign, east = '-', -east
	}
	dst = pad(append(dst, sign), int64(east/3600), 2)
	if east%3600 != 0 {
		dst = pad(append(dst, ':'), int64(east/60%60), 2)
	}
	if east%60 != 0 {
		dst = pad(append(dst, ':'), int64(east%60), 2)
	}
	return dst
}

// appendTimestamp writes a timestamp; with a zone it is local time there, followed by the offset.
func appendTimestamp(dst []byte, us int64, zone *time.Location) ([]byte, error) {
	switch {
	case us == infiniteTime:
		return append(dst, "infinity"...), nil
	case us == -infiniteTime:
		return append(dst, "-infinity"...), nil
	case us < minMicros:
		return dst, timeError()
	}
	east := 0
	if zone != nil {
		_, east = time.UnixMicro(us).In(zone).Zone()
		us += int64(east) * 1_000_000
	}
	days := floorDiv(us, dayMicros)
	dst, bc := appendDay(dst, days)
	dst = appendTime(append(dst, ' '), us-days*dayMicros)
	if zone != nil {
		dst = appendOffset(dst, east)
	}
	if bc {
		dst = append(dst, " BC"...)
	}
	return dst, nil
}

// appendInterval writes an interval in PostgreSQL's own style: 1 year 2 mons 3 days 04:05:06.7.
func appendInterval(dst []byte, months, days int32, us int64) []byte {
	from := len(dst)
	part := func(n int32, unit string, negBefore bool) {
		if n == 0 {
			return
		}
		if len(dst) > from {
			dst = append(dst, ' ')
		}
		if negBefore && n > 0 {
			dst = append(dst, '+')
		}
		dst = strconv.AppendInt(dst, int64(n), 10)
		dst = append(append(dst, ' '), unit...)
		if n != 1 {
			dst = append(dst, 's')
		}
	}
	years, mons := months/12, months%12
	part(years, "year", false)
	part(mons, "mon", years < 0)
	part(days, "day", mons < 0 || mons == 0 && years < 0)
	if us != 0 || len(dst) == from {
		if len(dst) > from {
			dst = append(dst, ' ')
		}
		switch {
		case us < 0:
			dst = append(dst, '-')
			us = -us
		case days < 0 || days == 0 && months < 0:
			dst = append(dst, '+')
		}
		dst = appendTime(dst, us)
	}
	return dst
}
