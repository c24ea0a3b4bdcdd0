use super::*;
use traffic::*;
use std::sync::Arc;
#[test]
fn dump() {
    let city = grid(GridPlan { rows: 2, columns: 2, ..GridPlan::default() }).unwrap();
    let mut deps=vec![];
    let entries: Vec<_> = city.entries().collect();
    for i in 0..400u32 {
        let link = entries[i as usize % entries.len()];
        let mut route=vec![link]; let mut here=link;
        let mut h=i;
        while !city.outgoing(here).is_empty() && route.len()<10 { let t=city.outgoing(here); h=h.wrapping_mul(7919)+13; here=city.turn(t[(h>>5) as usize % t.len()]).to; route.push(here);}
        let route: Arc<[LinkId]> = route.into();
        deps.push(Departure{time:Seconds::new(i as f64*1.0),vehicle:VehicleId(i),class:VehicleClass::Car,route,stop:None});
    }
    let mut w=Simulation::new(&city, SimulationPlan{until:Seconds::new(1500.0),..Default::default()},deps).unwrap();
    let mut out=vec![];
    while let Some(t)=w.next_moment(&mut out).unwrap(){
        if t.get()%100.0==0.0 {println!("{t} {:?} {:?}",w.counts(),w.incidents());}
    }
    for (l,vs) in w.road.lanes.iter().enumerate(){ for v in vs.iter().take(2){ println!("lane {l} {} {:?} pos {:.2} v {:.2} onward {:?} must {} cf {} mg {}", city.link(LinkId(w.road.streets.lanes[l].link)).name, w.road.streets.lanes[l].number, v.position,v.speed,v.onward,v.must_change(&w.road.streets,l as u32),v.came_from,v.missed_green);}}
}
