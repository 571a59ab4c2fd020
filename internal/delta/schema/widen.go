package schema

import (
	"slices"

	"sluice/internal/delta/jsonscan"
)

// change is one entry of delta.typeChanges. fieldPath, which says to which part of an array or map it belongs, and
// tableVersion, which the preview of the feature writes, make no difference to whether it can be read.
type change struct{ from, to string }

func (p *parser) parseChanges() ([]change, error) {
	if err := p.s.Open('['); err != nil {
		return nil, err
	}
	var list []change
	for first := true; ; first = false {
		more, err := p.s.Element(first)
		if !more || err != nil {
			return list, err
		}
		c, err := p.parseChange()
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
}

func (c change) supported() bool {
	from, ok := primitive(c.from)
	to, ok2 := primitive(c.to)
	return ok && ok2 && Widens(from, to)
}

var integers = []Kind{Byte, Short, Integer, Long}

// wholeDigits is how many digits before the point a decimal needs to hold each of them. The protocol asks for 10 also for
// the small ones; writers do with what their values need.
var wholeDigits = []int{3, 5, 10, 20}

// Widens reports whether every value of from is a value of to, in the ways that type widening allows.
func Widens(from, to Type) bool {
	rank, rankTo := slices.Index(integers, from.Kind), slices.Index(integers, to.Kind)
	switch to.Kind {
	case Short, Integer, Long:
		return rank >= 0 && rank < rankTo
	case Double:
		return from.Kind == Float || rank >= 0 && from.Kind != Long
	case Decimal:
		whole := to.Precision - to.Scale
		if from.Kind == Decimal {
			return to.Scale >= from.Scale && whole >= from.Precision-from.Scale
		}
		return rank >= 0 && whole >= wholeDigits[rank]
	case TimestampNTZ:
		return from.Kind == Date
	default:
		return false
	}
}

var changeMembers = []string{"fromType", "toType"}

func (p *parser) parseChange() (c change, err error) {
	err = jsonscan.Members(&p.s, changeMembers, func(i int) (err error) {
		if i == 0 {
			c.from, err = p.text()
		} else {
			c.to, err = p.text()
		}
		return err
	})
	return c, err
}
